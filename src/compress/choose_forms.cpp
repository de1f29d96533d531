// Which form each layer gets.
#include <brim/compress/shrink.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/check.h"

namespace brim::compress {
namespace {

/// From one form of a layer to the next one on its convex hull.
struct Exchange {
  size_t layer, form;
  double slope;  // of the distance, for the cost that is spared
};

struct Weights {
  double of_seconds, of_bytes;

  double cost(const FormCost& form) const {
    return of_seconds * form.seconds + of_bytes * static_cast<double>(form.bytes);
  }
};

/// The exchanges of a layer, from its dense form to the cheapest one; slopes rise.
void add_exchanges(size_t layer, const LayerCosts& costs, Weights weights,
                   std::vector<Exchange>& all) {
  for (size_t now = 0;;) {
    std::optional<Exchange> best;
    for (size_t next = 0; next < costs.forms.size(); ++next) {
      const double spared = weights.cost(costs.forms[now]) - weights.cost(costs.forms[next]);
      if (!(spared > 0)) continue;
      const double slope =
          std::max(0.0, costs.forms[next].distance - costs.forms[now].distance) / spared;
      const bool is_cheaper =
          best && weights.cost(costs.forms[next]) < weights.cost(costs.forms[best->form]);
      if (!best || slope < best->slope || (slope == best->slope && is_cheaper))
        best = Exchange{.layer = layer, .form = next, .slope = slope};
    }
    if (!best) return;
    all.push_back(*best);
    now = best->form;
  }
}

void add(Choice& choice, const LayerCosts& layer, size_t form, int sign = 1) {
  const FormCost& cost = layer.forms[form];
  choice.seconds += sign * cost.seconds;
  choice.bytes += sign * cost.bytes;
  choice.distance += sign * cost.distance;
}

/// `choice` with another form of one layer.
Choice exchanged(Choice choice, const std::vector<LayerCosts>& layers, size_t layer, size_t form) {
  add(choice, layers[layer], choice.forms[layer], -1);
  add(choice, layers[layer], form);
  choice.forms[layer] = form;
  return choice;
}

Choice all_dense(const std::vector<LayerCosts>& layers) {
  Choice choice{.forms = std::vector<size_t>(layers.size(), 0)};
  for (const LayerCosts& layer : layers) {
    BRIM_CHECK(!layer.forms.empty(), ValueError, "[shrink] the layer {} has no form", layer.name);
    add(choice, layer, 0);
  }
  return choice;
}

bool is_within(const Choice& choice, const Limits& limits) {
  constexpr double kRounding = 1 + 1e-12;
  return choice.seconds <= limits.seconds * kRounding && choice.bytes <= limits.bytes;
}

/// Layers get closer forms for as long as there is room.
Choice with_room_used(Choice choice, const std::vector<LayerCosts>& layers, const Limits& limits) {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    Choice best = choice;
    for (size_t layer = 0; layer < layers.size(); ++layer)
      for (size_t form = 0; form < layers[layer].forms.size(); ++form) {
        Choice other = exchanged(choice, layers, layer, form);
        if (other.distance < best.distance && is_within(other, limits)) {
          best = std::move(other);
          has_changed = true;
        }
      }
    choice = std::move(best);
  }
  return choice;
}

}  // namespace

std::string LayerForm::str() const {
  if (channels > 0) return fmt::format("{:g} % fewer channels", 100 * channels);
  const std::string zeros = sparsity > 0 ? fmt::format("{:g} % zeros", 100 * sparsity) : "";
  if (!int8) return zeros.empty() ? "f32" : zeros;
  return zeros.empty() ? "int8" : "int8, " + zeros;
}

std::vector<Choice> form_frontier(const std::vector<LayerCosts>& layers, double of_seconds,
                                  double of_bytes) {
  std::vector<Exchange> exchanges;
  for (size_t i = 0; i < layers.size(); ++i)
    add_exchanges(i, layers[i], {.of_seconds = of_seconds, .of_bytes = of_bytes}, exchanges);
  // A layer's own are in order, and stay so.
  std::ranges::stable_sort(exchanges, {}, &Exchange::slope);
  std::vector<Choice> all = {all_dense(layers)};
  for (const Exchange& e : exchanges) all.push_back(exchanged(all.back(), layers, e.layer, e.form));
  return all;
}

Choice choose_forms(const std::vector<LayerCosts>& layers, const Limits& limits) {
  constexpr int kWeights = 32;
  const Choice dense = all_dense(layers);
  if (is_within(dense, limits)) return dense;
  std::optional<Choice> best;
  Limits least{};
  for (int i = 0; i <= kWeights; ++i) {
    const double share = static_cast<double>(i) / kWeights;
    const std::vector<Choice> frontier =
        form_frontier(layers, share / std::max(dense.seconds, 1e-12),
                      (1 - share) / std::max(static_cast<double>(dense.bytes), 1.0));
    least.seconds = std::min(least.seconds, frontier.back().seconds);
    least.bytes = std::min(least.bytes, frontier.back().bytes);
    const auto first = std::ranges::find_if(
        frontier, [&](const Choice& choice) { return is_within(choice, limits); });
    if (first == frontier.end()) continue;
    Choice found = with_room_used(*first, layers, limits);
    if (!best || found.distance < best->distance) best = std::move(found);
  }
  const Limits none;
  BRIM_CHECK(best, ValueError,
             "[shrink] out of reach: the layers take {:.4g} ms at least, and {} bytes at least; "
             "the limits leave them {}{}{}",
             1e3 * least.seconds, least.bytes,
             limits.seconds < none.seconds ? fmt::format("{:.4g} ms", 1e3 * limits.seconds) : "",
             limits.seconds < none.seconds && limits.bytes < none.bytes ? " and " : "",
             limits.bytes < none.bytes ? fmt::format("{} bytes", limits.bytes) : "");
  return *std::move(best);
}

LayerForms forms_of(const std::vector<LayerCosts>& layers, const Choice& choice) {
  LayerForms forms;
  for (size_t i = 0; i < layers.size(); ++i)
    if (const LayerForm form = layers[i].forms[choice.forms[i]].form; !form.is_dense())
      forms[layers[i].name] = form;
  return forms;
}

Choice choice_of(const std::vector<LayerCosts>& layers, const LayerForms& forms) {
  Choice choice = all_dense(layers);
  for (const auto& [name, form] : forms) {
    const auto layer = std::ranges::find(layers, name, &LayerCosts::name);
    BRIM_CHECK(layer != layers.end(), ValueError, "[shrink] there is no layer '{}'", name);
    const auto cost = std::ranges::find(layer->forms, form, &FormCost::form);
    BRIM_CHECK(cost != layer->forms.end(), ValueError, "[shrink] {} has no form {}", name,
               form.str());
    choice = exchanged(std::move(choice), layers, static_cast<size_t>(layer - layers.begin()),
                       static_cast<size_t>(cost - layer->forms.begin()));
  }
  return choice;
}

std::optional<PruneOptions> pruning_of(const std::vector<LayerCosts>& layers,
                                       const LayerForms& forms, int64_t vector) {
  PruneOptions options{.pattern = {.kind = Pattern::Kind::vector, .length = vector}, .sparsity = 0};
  for (const LayerCosts& layer : layers) {
    const auto form = forms.find(layer.name);
    if (form == forms.end() || form->second.sparsity == 0) {
      options.dense.push_back(layer.name);
    } else {
      options.layers[layer.name] = form->second.sparsity;
      options.sparsity = std::max(options.sparsity, form->second.sparsity);
    }
  }
  if (options.layers.empty()) return std::nullopt;
  return options;
}

}  // namespace brim::compress
