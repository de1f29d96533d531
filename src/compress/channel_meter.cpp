// What networks cost without some of their channels.
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/compress/shrink.h>
#include <brim/ops/binary.h>
#include <brim/ops/conv.h>
#include <brim/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "compress/channel_removal.h"
#include "compress/moments.h"
#include "core/check.h"
#include "nn/eval_mode.h"
#include "nn/layer.h"

namespace brim::compress {
namespace {

/// What the layer computes where channels that it reads are zero.
Tensor output_of_masked(const ChannelSite& site, const Tensor& x, const Tensor& mask) {
  if (site.linear) return linear(x * mask, site.linear->weight, site.linear->bias);
  return conv2d(x * mask.reshape({1, -1, 1, 1}), site.conv->weight, site.conv->bias,
                nn::convolution_of(site.conv->options));
}

}  // namespace

struct ChannelMeter::State {
  nn::Module& network;
  const ChannelMeterOptions options;
  std::optional<ChannelFlow> flow;
  std::vector<ChannelGroup> groups;
  std::vector<std::string> names;  // of the groups
  std::vector<Tensor> dense;       // the outputs of the inputs
  double dense_s = 0;

  State(nn::Module& n, ChannelMeterOptions o) : network(n), options(std::move(o)) {}

  int64_t bytes() const { return 4 * network.num_parameters(); }
  std::set<int64_t> gone(const LayerForms& forms) const {
    std::set<int64_t> all;
    for (const auto& [name, form] : forms) {
      const auto at = std::ranges::find(names, name);
      BRIM_CHECK(at != names.end(), ValueError, "[shrink] no group of channels is '{}'", name);
      const auto least = groups[static_cast<size_t>(at - names.begin())].least(
          form.channels, ChannelOptions().multiple);
      all.insert(least.begin(), least.end());
    }
    return all;
  }
  double distance_without(const std::set<int64_t>& gone) const;
};

double ChannelMeter::State::distance_without(const std::set<int64_t>& gone) const {
  std::vector<nn::Module::HookHandle> hooks;
  for (const ChannelSite& site : flow->sites) {
    if (site.kind != ChannelSite::Kind::layer) continue;
    std::vector<float> kept;
    for (const int64_t output : site.reads)
      kept.push_back(output >= 0 && gone.contains(flow->set_of(output)) ? 0.0F : 1.0F);
    if (std::ranges::count(kept, 0.0F) == 0) continue;
    const Tensor mask = Tensor::from<float>(kept, {std::ssize(kept)}, site.weight().device());
    hooks.push_back(site.module->register_forward_hook(
        [&site, mask](nn::Module&, const Tensor& x, const Tensor& y) {
          return with_moments_of(output_of_masked(site, x, mask.to(x.dtype())), y,
                                 site.conv != nullptr);
        }));
  }
  double sum = 0;
  for (size_t i = 0; i < dense.size(); ++i)
    sum += options.distance(network(options.inputs[i]), dense[i]);
  const double mean = sum / static_cast<double>(dense.size());
  BRIM_CHECK(std::isfinite(mean), ValueError,
             "[shrink] with fewer channels the distance of the network's outputs is {}", mean);
  return std::max(mean, 0.0);
}

ChannelMeter::ChannelMeter(nn::Module& network, ChannelMeterOptions options)
    : state_(std::make_unique<State>(network, std::move(options))) {
  State& s = *state_;
  BRIM_CHECK(!s.options.inputs.empty() && s.options.distance && s.options.pass_seconds, ValueError,
             "[shrink] inputs, a distance of outputs and the time of a pass are needed");
  for (const double sparsity : s.options.sparsities)
    BRIM_CHECK(sparsity > 0 && sparsity < 1, ValueError,
               "[shrink] a sparsity of {}: it is above 0 and below 1", sparsity);
  const NoGrad scope;
  const nn::EvalMode mode(network);
  use_dense(network);
  s.flow = channel_flow(network, s.options.inputs[0]);
  const auto scores = channel_scores(
      *s.flow,
      [&s] {
        for (const Tensor& x : s.options.inputs) (void)s.network(x);
      },
      ChannelCriterion::activations);
  for (ChannelGroup& group : channel_groups(*s.flow, scores)) {
    const auto name_of = [&](size_t site) -> const std::string& {
      return s.flow->sites[site].name;
    };
    const bool is_kept = std::ranges::any_of(group.sites, [&](size_t site) {
      return std::ranges::find(s.options.keep, name_of(site)) != s.options.keep.end();
    });
    const std::string& name = name_of(group.sites[0]);
    if (is_kept || std::ranges::find(s.names, name) != s.names.end()) continue;
    s.names.push_back(name);
    s.groups.push_back(std::move(group));
  }
  for (const Tensor& x : s.options.inputs) s.dense.push_back(network(x).detach());
  s.dense_s = s.options.pass_seconds();
}

ChannelMeter::~ChannelMeter() = default;

size_t ChannelMeter::groups() const { return state_->groups.size(); }

const std::string& ChannelMeter::name(size_t group) const {
  BRIM_CHECK(group < groups(), IndexError, "[shrink] group {} of {}", group, groups());
  return state_->names[group];
}

LayerCosts ChannelMeter::measure(size_t group) {
  State& s = *state_;
  LayerCosts costs{.name = name(group)};
  const NoGrad scope;
  const nn::EvalMode mode(s.network);
  const int64_t count = std::ssize(s.groups[group].sets);
  costs.shape = {count};
  costs.forms.push_back({.form = {}, .seconds = s.dense_s, .bytes = s.bytes(), .distance = 0});
  size_t before = 0;
  for (const double sparsity : s.options.sparsities) {
    const LayerForms forms = {{costs.name, {.channels = sparsity}}};
    const std::set<int64_t> gone = s.gone(forms);
    if (gone.size() == std::exchange(before, gone.size())) continue;  // by whole multiples
    FormCost cost{.form = forms.begin()->second};
    try {
      const ChannelRemoval removal(s.network, s.options.inputs[0], *s.flow, gone);
      cost.seconds = s.options.pass_seconds();
      cost.bytes = s.bytes();
    } catch (const ValueError& e) {
      costs.why = e.what();
      break;
    }
    cost.distance = s.distance_without(gone);
    costs.forms.push_back(cost);
  }
  if (costs.forms.size() == 1 && costs.why.empty()) costs.why = "its channels are too few";
  return costs;
}

double ChannelMeter::distance(const LayerForms& forms) {
  const NoGrad scope;
  const nn::EvalMode mode(state_->network);
  return state_->distance_without(state_->gone(forms));
}

ShrunkNetwork ChannelMeter::shrink(const LayerForms& forms) {
  State& s = *state_;
  const NoGrad scope;
  const nn::EvalMode mode(s.network);
  return ChannelRemoval(s.network, s.options.inputs[0], *s.flow, s.gone(forms)).keep();
}

}  // namespace brim::compress
