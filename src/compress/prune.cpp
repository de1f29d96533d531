#include <brim/compress/prune.h>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/sparse.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "compress/masked_weight.h"
#include "compress/output_groups.h"
#include "compress/prunable.h"
#include "compress/prune_units.h"
#include "core/check.h"
#include "core/nearest.h"

namespace brim::compress {
namespace {

int64_t whole(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

void check(const Pattern& p) {
  const bool is_right =
      p.kind == Pattern::Kind::unstructured ||
      (p.kind == Pattern::Kind::vector && SparseWeight::has_vectors_of(p.length)) ||
      (p.kind == Pattern::Kind::n_of_m && p.count >= 1 && p.length <= 64 && p.count < p.length);
  BRIM_CHECK(is_right, ValueError,
             "[prune] a pattern of {} of {}: vectors are 4, 8, 16, 32 or 64 long, and N:M keeps 1 "
             "to M - 1 of at most 64",
             p.count, p.length);
}

/// A weight as a matrix on the host.
struct Matrix {
  int64_t outputs, columns;
  std::vector<float> scores;  // of each element

  float at(int64_t o, int64_t k) const { return scores[static_cast<size_t>(o * columns + k)]; }
};

/// Orders positions by the scores that stand there, equal ones by the position.
auto by_score(const std::vector<double>& scores) {
  return [&scores](size_t a, size_t b) {
    return scores[a] < scores[b] || (scores[a] == scores[b] && a < b);
  };
}

std::vector<size_t> places_of(const std::vector<double>& scores) {
  std::vector<size_t> positions(scores.size());
  std::iota(positions.begin(), positions.end(), size_t{0});
  return positions;
}

/// Where the `count` smallest scores stand.
std::vector<size_t> smallest(const std::vector<double>& scores, int64_t count) {
  std::vector<size_t> positions = places_of(scores);
  count = std::clamp<int64_t>(count, 0, std::ssize(positions));
  const auto end = positions.begin() + count;
  if (end != positions.end())
    std::nth_element(positions.begin(), end, positions.end(), by_score(scores));
  positions.resize(static_cast<size_t>(count));
  return positions;
}

// Each makes the elements of `mask` 0 that a pattern leaves out; something is always left.

void leave_out_of_neighbours(const Matrix& m, const Pattern& p, std::vector<float>& mask) {
  for (int64_t o = 0; o < m.outputs; ++o)
    for (int64_t first = 0; first < m.columns; first += p.length) {
      const int64_t size = std::min(p.length, m.columns - first);
      std::vector<double> scores;
      for (int64_t k = first; k < first + size; ++k) scores.push_back(m.at(o, k));
      for (const size_t k : smallest(scores, size - std::min(p.count, size)))
        mask[static_cast<size_t>(o * m.columns + first) + k] = 0;
    }
}

/// Units of (O, K), `order`: the outputs, those of a group together; empty: as they are.
void leave_out_units(const PruneUnits& units, const std::vector<int64_t>& order,
                     const std::vector<uint8_t>& left_out, std::vector<float>& mask) {
  const int64_t columns = units.columns;
  for (int64_t position = 0; position < units.outputs; ++position) {
    const int64_t o = order.empty() ? position : order[static_cast<size_t>(position)];
    for (int64_t k = 0; k < columns; ++k)
      if (left_out[static_cast<size_t>(position / units.length * columns + k)])
        mask[static_cast<size_t>(o * columns + k)] = 0;
  }
}

/// What a layer is pruned to, now and in the end.
struct LayerSparsity {
  double now, final;
  bool is_own = false;  ///< asked for by its name

  LayerSparsity(const PruneOptions& options, const std::string& name)
      : now(options.sparsity), final(std::max(options.sparsity, options.final_sparsity)) {
    const auto own = options.layers.find(name);
    if (own == options.layers.end()) return;
    now *= own->second / final;
    final = own->second;
    is_own = true;
  }
};

/// A layer that is pruned.
struct Scored {
  Matrix matrix;
  LayerSparsity sparsity;
  std::vector<int64_t>* group = nullptr;  ///< the outputs' order, which is chosen where it is empty
};

PruneUnits units_of(const Scored& layer, const Pattern& pattern) {
  const Matrix& m = layer.matrix;
  if (pattern.kind == Pattern::Kind::unstructured) return element_units(m.scores);
  if (layer.group->empty())
    *layer.group = group_outputs(m.scores, m.outputs, pattern.length, layer.sparsity.final);
  return vector_units(m.scores, *layer.group, pattern.length);
}

/// 0 for each number of each layer that goes.
std::vector<std::vector<float>> masks_of(const std::vector<Scored>& layers,
                                         const PruneOptions& options) {
  std::vector<std::vector<float>> masks;
  for (const Scored& layer : layers) masks.emplace_back(layer.matrix.scores.size(), 1.0F);
  if (options.pattern.kind == Pattern::Kind::n_of_m) {
    for (size_t i = 0; i < layers.size(); ++i)
      leave_out_of_neighbours(layers[i].matrix, options.pattern, masks[i]);
    return masks;
  }
  const auto leave_out = [&](size_t i, const PruneUnits& units,
                             const std::vector<uint8_t>& left_out) {
    const std::vector<int64_t>* const group = layers[i].group;
    leave_out_units(units, group ? *group : std::vector<int64_t>(), left_out, masks[i]);
  };
  std::vector<PruneUnits> compared;  // of several layers
  std::vector<size_t> whose;
  for (size_t i = 0; i < layers.size(); ++i) {
    PruneUnits units = units_of(layers[i], options.pattern);
    if (options.scope == PruneScope::network && !layers[i].sparsity.is_own) {
      compared.push_back(std::move(units));
      whose.push_back(i);
    } else {
      leave_out(i, units, least_units({&units, 1}, layers[i].sparsity.now)[0]);
    }
  }
  const auto left_out = least_units(compared, options.sparsity);
  for (size_t i = 0; i < whose.size(); ++i) leave_out(whose[i], compared[i], left_out[i]);
  return masks;
}

/// `gradient`: that of the weight, where the criterion asks for it.
Matrix scores_of(const std::string& name, const Tensor& weight, const Tensor& gradient,
                 Criterion criterion) {
  Matrix m{.outputs = weight.shape()[0], .columns = 0, .scores = {}};
  m.scores = weight.to(f32).to_vector<float>();
  m.columns = m.outputs > 0 ? weight.numel() / m.outputs : 0;
  if (criterion == Criterion::taylor) {
    BRIM_CHECK(gradient.defined(), ValueError,
               "[prune] {} has no gradient, which the criterion taylor needs: compute a loss of "
               "some batches, call its backward(), and prune before gradients are cleared",
               name);
    const std::vector<float> g = gradient.detach().to(f32).to_vector<float>();
    for (size_t i = 0; i < g.size(); ++i) m.scores[i] *= g[i];
  }
  for (float& score : m.scores) {
    BRIM_CHECK(std::isfinite(score), ValueError,
               "[prune] {} holds a weight or gradient that is not finite; nothing was pruned",
               name);
    score = std::fabs(score);
  }
  return m;
}

void check_sparsity(double sparsity) {
  BRIM_CHECK(sparsity > 0 && sparsity < 1, ValueError,
             "[prune] a sparsity of {}: it is above 0 and below 1", sparsity);
}

/// Why a layer stays dense, or nothing.
std::string why_dense(const Prunable& layer, const PruneOptions& options) {
  if (std::ranges::find(options.dense, layer.name) != options.dense.end()) return "asked for";
  if (layer.groups() > 1) return "its channels are in groups";
  const Pattern& p = options.pattern;
  const Shape& shape = layer.weight().shape();
  if (shape.numel() == 0) return "it has no weights";
  if (p.kind == Pattern::Kind::vector && shape[0] < p.length)
    return fmt::format("its outputs ({}) are fewer than a vector", shape[0]);
  if (p.kind == Pattern::Kind::n_of_m && shape.numel() / shape[0] < p.length)
    return fmt::format("its outputs read {} numbers, fewer than {}", shape.numel() / shape[0],
                       p.length);
  return "";
}

/// As a fraction.
double zeros_among(const Tensor& weight) {
  const std::vector<float> now = weight.detach().to(f32).to_vector<float>();
  return static_cast<double>(std::ranges::count(now, 0.0F)) /
         static_cast<double>(std::max<size_t>(now.size(), 1));
}

}  // namespace

std::string Pattern::str() const {
  if (kind == Kind::unstructured) return "unstructured";
  return kind == Kind::vector ? fmt::format("vector:{}", length)
                              : fmt::format("{}:{}", count, length);
}

Pattern parse_pattern(std::string_view text) {
  Pattern p{.kind = Pattern::Kind::unstructured, .length = 1};
  if (text == "unstructured") return p;
  const size_t colon = text.find(':');
  const std::string_view first = text.substr(0, colon);
  const int64_t second = colon == std::string_view::npos ? -1 : whole(text.substr(colon + 1));
  const bool is_vector = first == "vector" && SparseWeight::has_vectors_of(second);
  const int64_t count = whole(first);
  BRIM_CHECK(is_vector || (count >= 1 && second > count && second <= 64), ValueError,
             "[prune] '{}' is no pattern; write unstructured, N:M as 2:4 (M at most 64), or "
             "vector:V with V = 4, 8, 16, 32 or 64; whole channels are left out before a "
             "training, by shrink_channels(), brim prune --pattern channels or a recipe",
             text);
  if (is_vector) return {.kind = Pattern::Kind::vector, .length = second};
  return {.kind = Pattern::Kind::n_of_m, .length = second, .count = count};
}

std::vector<PrunedLayer> pruned_layers(nn::Module& network, const PruneOptions& options) {
  check(options.pattern);
  BRIM_CHECK(options.scope == PruneScope::layer || options.pattern.kind != Pattern::Kind::n_of_m,
             ValueError, "[prune] a sparsity of the network: {} leaves each layer as many numbers",
             options.pattern.str());
  const std::vector<Prunable> all = prunable_layers(network);
  std::vector<std::string> names;
  for (const Prunable& layer : all) names.push_back(layer.name);
  for (const std::string& name : options.dense)
    BRIM_CHECK(std::ranges::find(names, name) != names.end(), ValueError,
               "[prune] '{}' is no convolution or linear layer of the network{}", name,
               suggestion(name, names));
  for (const auto& [name, sparsity] : options.layers) {
    BRIM_CHECK(std::ranges::find(names, name) != names.end(), ValueError,
               "[prune] a sparsity of '{}', which is no convolution or linear layer of the "
               "network{}",
               name, suggestion(name, names));
    BRIM_CHECK(options.pattern.kind != Pattern::Kind::n_of_m, ValueError,
               "[prune] a sparsity of '{}': of {} it is the same for all layers", name,
               options.pattern.str());
    check_sparsity(sparsity);
    BRIM_CHECK(std::ranges::find(options.dense, name) == options.dense.end(), ValueError,
               "[prune] '{}' is to stay dense and to have a sparsity of {}; take one", name,
               sparsity);
  }
  std::vector<PrunedLayer> layers;
  std::vector<const Storage*> seen;
  for (const Prunable& layer : all) {
    const Tensor& weight = layer.weight();
    layers.push_back({.name = layer.name,
                      .shape = weight.shape(),
                      .sparsity = zeros_among(weight),
                      .why = why_dense(layer, options)});
    if (std::ranges::find(seen, weight.storage().get()) != seen.end())
      layers.back().why = "its weight is another layer's";
    if (layers.back().why.empty()) seen.push_back(weight.storage().get());
  }
  return layers;
}

void check_groups(nn::Module& network, const OutputGroups& groups) {
  const std::vector<Prunable> layers = prunable_layers(network);
  for (const auto& [name, order] : groups) {
    const auto found = std::ranges::find(layers, name, &Prunable::name);
    BRIM_CHECK(found != layers.end(), ValueError, "[prune] groups of '{}', which is no layer",
               name);
    std::vector<int64_t> sorted = order, outputs(static_cast<size_t>(found->weight().size(0)));
    std::ranges::sort(sorted);
    std::iota(outputs.begin(), outputs.end(), int64_t{0});
    BRIM_CHECK(sorted == outputs, ValueError,
               "[prune] the groups of {} are no order of its {} outputs", name, outputs.size());
  }
}

double sparsity_of(const std::vector<PrunedLayer>& layers) {
  double zeros = 0, all = 0;
  for (const PrunedLayer& layer : layers) {
    if (!layer.why.empty()) continue;
    const auto count = static_cast<double>(layer.shape.numel());
    zeros += layer.sparsity * count;
    all += count;
  }
  return all > 0 ? zeros / all : 0;
}

Masks::Masks(nn::Module& network, PruneOptions options) : options_(std::move(options)) {
  if (options_.final_sparsity != 0) check_sparsity(options_.final_sparsity);
  layers_ = pruned_layers(network, options_);
  check_groups(network, options_.groups);
  const std::vector<Prunable> all = prunable_layers(network);
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor& weight = all[i].weight();
    if (layers_[i].why.empty())
      masked_.push_back(
          {.layer = i,
           .parameter = weight,
           .is_zero = zeros(weight.shape(), {.dtype = bool_, .device = weight.device()})});
  }
  BRIM_CHECK(
      !masked_.empty(), ValueError,
      "[prune] no layer is left to be pruned: all are asked to stay dense, or cannot take the "
      "pattern {}",
      options_.pattern.str());
  prune(options_.sparsity);
}

void Masks::prune(double sparsity) {
  check_sparsity(sparsity);
  const bool by_gradient = options_.criterion == Criterion::taylor;
  options_.sparsity = sparsity;
  std::vector<Scored> scored;
  OutputGroups groups = options_.groups;
  const bool are_shared = options_.pattern.kind == Pattern::Kind::vector;
  for (const Masked& m : masked_) {
    const std::string& name = layers_[m.layer].name;
    scored.push_back(
        {.matrix = scores_of(name, m.parameter.detach(),
                             by_gradient ? m.parameter.grad() : Tensor(), options_.criterion),
         .sparsity = LayerSparsity(options_, name),
         .group = are_shared ? &groups[name] : nullptr});
  }
  const std::vector<std::vector<float>> masks = masks_of(scored, options_);
  options_.groups = std::move(groups);
  const NoGrad scope;
  for (size_t i = 0; i < masks.size(); ++i) {
    Masked& m = masked_[i];
    const Tensor kept = Tensor::from<float>(masks[i], m.parameter.shape(), m.parameter.device());
    m.is_zero.copy_(eq(kept, 0));
  }
  apply();
  for (const Masked& m : masked_) layers_[m.layer].sparsity = zeros_among(m.parameter);
}

double sparsity_of_round(double sparsity, int64_t round, int64_t rounds) {
  check_sparsity(sparsity);
  BRIM_CHECK(round >= 1 && round <= rounds, ValueError,
             "[prune] round {} of {}: rounds are counted from 1", round, rounds);
  if (round == rounds) return sparsity;
  return 1 - std::pow(1 - sparsity, static_cast<double>(round) / static_cast<double>(rounds));
}

Tensor masked_weight(const Tensor& weight, const Pattern& pattern, double sparsity) {
  check(pattern);
  check_sparsity(sparsity);
  const NoGrad scope;
  const PruneOptions options{.pattern = pattern, .sparsity = sparsity};
  std::vector<int64_t> group;
  const Scored scored{.matrix = scores_of("the weight", weight.detach(), {}, Criterion::magnitude),
                      .sparsity = LayerSparsity(options, ""),
                      .group = pattern.kind == Pattern::Kind::vector ? &group : nullptr};
  const std::vector<float> mask = masks_of({scored}, options)[0];
  return weight.detach() * Tensor::from<float>(mask, weight.shape(), weight.device());
}

void Masks::apply() {
  const NoGrad scope;
  for (Masked& m : masked_) {
    Tensor weight = m.parameter.detach();
    weight.copy_(masked_fill(weight, m.is_zero, 0));
  }
}

void Masks::rewind(nn::Module& network, const StateDict& state) {
  const NoGrad scope;
  (void)network.load_state_dict(state);
  apply();
}

void Masks::apply_to_gradients() {
  const NoGrad scope;
  for (Masked& m : masked_) {
    Tensor gradient = m.parameter.grad();
    if (gradient.defined()) gradient.copy_(masked_fill(gradient, m.is_zero, 0));
  }
}

}  // namespace brim::compress
