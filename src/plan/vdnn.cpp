#include "plan/vdnn.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string_view>

#include "backend/fused/chain.h"

namespace brim::plan {
namespace {

bool is_convolution(const Launch& launch) {
  const std::string_view name = launch.name();
  return name.starts_with("conv2d") || name.starts_with("conv_transpose2d");
}

/// Whether a layer reads it before the gap. Sums of gradients, which wait from part to part, are
/// written last.
bool is_read_before_gap(const FitModel& model, size_t t) {
  const std::vector<int>& writers = model.uses().writers(*model.storage(t));
  return !std::ranges::count(writers, model.activation(t).last_before);
}

/// A forward pass and its backward pass. There are several where a step adds up the gradients of
/// parts of a batch.
struct Part {
  int begin, middle, end;  ///< launches, the last one included; `middle` ends the forward pass
};

/// A forward pass ends at the launch during which the most of its layers' inputs wait. Between
/// two parts less than half of them do.
std::vector<Part> parts_of(const FitModel& model) {
  const FitProblem& p = model.problem();
  const size_t launches = p.seconds.size();
  std::vector<int> waiting(launches + 1, 0);
  for (size_t t = 0; t < p.activations.size(); ++t) {
    const Activation& a = p.activations[t];
    if (a.first_after <= a.last_before + 1 || !is_read_before_gap(model, t)) continue;
    ++waiting[static_cast<size_t>(a.last_before) + 1];
    --waiting[static_cast<size_t>(a.first_after)];
  }
  std::partial_sum(waiting.begin(), waiting.end(), waiting.begin());  // 0 at the end
  const int most = *std::ranges::max_element(waiting);
  std::vector<Part> parts;
  int most_of_part = 0, middle = 0;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i] > most_of_part) {
      most_of_part = waiting[i];
      middle = static_cast<int>(i);
    }
    if (2 * waiting[i] >= most_of_part || 2 * most_of_part <= most) continue;
    int begin = 0;
    if (!parts.empty()) {
      const auto fewest =
          std::min_element(waiting.begin() + parts.back().middle, waiting.begin() + middle);
      parts.back().end = begin = static_cast<int>(fewest - waiting.begin());
    }
    parts.push_back({.begin = begin, .middle = middle, .end = static_cast<int>(launches) - 1});
    most_of_part = 0;
  }
  return parts;
}

/// Launches of the backward pass that stand together and read the same gradient.
struct Layer {
  int first, last;
  bool is_convolution;
};

std::vector<Layer> backward_layers(const Program& program, const Part& part) {
  const auto share_a_gradient = [&](const Launch& a, const Launch& b) {
    const auto reads = [](const Launch& l, const Storage* s) {
      return std::ranges::any_of(l.operands(), [&](const Operand& o) {
        return !o.writes && o.tensor->defined() && o.tensor->storage().get() == s;
      });
    };
    return std::ranges::any_of(a.operands(), [&](const Operand& o) {
      return !o.writes && o.tensor->defined() && program.temporary(*o.tensor) &&
             reads(b, o.tensor->storage().get());
    });
  };
  std::vector<Layer> layers;
  for (int i = part.middle; i <= part.end; ++i) {
    const Launch& launch = *program.launches[static_cast<size_t>(i)];
    if (layers.empty() || !share_a_gradient(*program.launches[static_cast<size_t>(i) - 1], launch))
      layers.push_back({.first = i, .last = i, .is_convolution = false});
    layers.back().last = i;
    layers.back().is_convolution |= is_convolution(launch);
  }
  return layers;
}

/// Whether it is an input of a layer that the policy counts, during the forward pass.
bool is_moved(const Program& program, const FitModel& model, size_t t, bool all_layers,
              const Part& part) {
  const Activation& a = model.activation(t);
  if (a.to_host == kImpossible || a.made_by < part.begin || a.last_before >= part.middle ||
      a.first_after <= part.middle || a.first_after > part.end)
    return false;
  const std::vector<int>& readers = model.uses().readers(*model.storage(t));
  return std::ranges::any_of(readers, [&](int i) {
    return i <= a.last_before &&
           (all_layers || is_convolution(*program.launches[static_cast<size_t>(i)]));
  });
}

/// The launch of the backward pass that the layer begins with whose input this is. What an
/// elementwise launch reads beside a gradient is its layer's output: the input of the layer that
/// made this gradient, where vDNN wants it back.
int wanted_by(const Program& program, const FitModel& model, size_t t, int middle) {
  const int use = model.activation(t).first_after;
  const Launch& launch = *program.launches[static_cast<size_t>(use)];
  if (!backend::find_elementwise(launch.name(), launch.dtype())) return use;
  for (const Operand& o : launch.operands()) {
    if (o.writes || !o.tensor->defined() || o.tensor->storage() == model.storage(t)) continue;
    const std::vector<int>& writers = model.uses().writers(*o.tensor);
    const auto behind = std::ranges::lower_bound(writers, use);
    if (behind != writers.begin() && *std::prev(behind) > middle) return *std::prev(behind);
  }
  return use;
}

/// An activation that is moved, and when it is wanted back.
struct Moved {
  size_t activation;
  int wanted_by;
};

/// Each layer of the backward pass fetches what the next one wants, unless a convolution stands
/// between them.
void place_fetches(const std::vector<Layer>& layers, const std::vector<Moved>& moved,
                   std::vector<Schedule::Trip>& trips) {
  const auto layer_of = [&](const Moved& m) {
    return std::ranges::find_if(layers,
                                [&](const Layer& layer) { return m.wanted_by <= layer.last; });
  };
  auto next = moved.begin();
  for (auto layer = layers.begin(); layer != layers.end() && next != moved.end(); ++layer) {
    for (; next != moved.end() && layer_of(*next) <= layer; ++next)  // nobody has fetched it
      trips[next->activation].fetched_at = next->wanted_by;
    if (next == moved.end()) break;
    if (std::any_of(layer + 1, layer_of(*next), [](const Layer& l) { return l.is_convolution; }))
      continue;
    trips[next->activation].fetched_at = layer->first;
    trips[next->activation].arrives_by = layer->last + 1;
    ++next;
  }
}

}  // namespace

Solution vdnn(const Program& program, const FitModel& model, bool all_layers) {
  const FitProblem& p = model.problem();
  Solution s{.choices = std::vector(p.activations.size(), Choice::keep), .schedule = {}};
  s.schedule.trips.resize(p.activations.size());
  for (const Part& part : parts_of(model)) {
    std::vector<Moved> moved;
    for (size_t t = 0; t < p.activations.size(); ++t) {
      if (!is_moved(program, model, t, all_layers, part)) continue;
      const Activation& a = p.activations[t];
      const std::vector<int>& writers = model.uses().writers(*model.storage(t));
      s.choices[t] = Choice::offload;
      s.schedule.trips[t] = {.released_by = a.last_before + 1,
                             .needed_by = a.first_after,
                             .offloaded_beside = !std::ranges::count(writers, a.last_before)};
      moved.push_back({t, wanted_by(program, model, t, part.middle)});
    }
    std::ranges::stable_sort(moved, {}, &Moved::wanted_by);
    place_fetches(backward_layers(program, part), moved, s.schedule.trips);
  }
  return s;
}

}  // namespace brim::plan
