#include <brim/compress/channels.h>
#include <brim/compress/quantize.h>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "compress/channel_parameters.h"
#include "compress/channel_removal.h"
#include "core/check.h"
#include "core/nearest.h"
#include "nn/eval_mode.h"

namespace brim::compress {
namespace {

using Kind = ChannelSite::Kind;

void check_channel_options(const ChannelOptions& o, const ChannelFlow& flow) {
  const auto check_sparsity = [](double sparsity) {
    BRIM_CHECK(sparsity > 0 && sparsity < 1, ValueError,
               "[prune] a sparsity of {}: it is above 0 and below 1", sparsity);
  };
  check_sparsity(o.sparsity);
  BRIM_CHECK(o.multiple >= 1, ValueError, "[prune] a multiple of {} outputs; give 1 or more",
             o.multiple);
  std::vector<std::string> names;
  for (const ChannelSite& site : flow.sites)
    if (site.conv || site.linear) names.push_back(site.name);
  const auto check_name = [&](const std::string& name) {
    BRIM_CHECK(std::ranges::find(names, name) != names.end(), ValueError,
               "[prune] '{}' is no convolution or linear layer of the network{}", name,
               suggestion(name, names));
  };
  for (const std::string& name : o.dense) check_name(name);
  for (const auto& [name, sparsity] : o.layers) check_name(name), check_sparsity(sparsity);
}

/// |numbers|, f64, by channel of the axis.
std::vector<double> magnitudes(const Tensor& t, int axis) {
  std::vector<int> others;
  for (int i = 0; i < t.rank(); ++i)
    if (i != axis) others.push_back(i);
  const Tensor all = abs(t.detach().to(f64));
  return (others.empty() ? all : mean(all, others)).contiguous().to_vector<double>();
}

void add_shares(std::vector<double> of_channels, const std::vector<int64_t>& outputs,
                std::vector<double>& scores) {
  const double sum = std::accumulate(of_channels.begin(), of_channels.end(), 0.0);
  BRIM_CHECK(std::isfinite(sum), ValueError,
             "[prune] a weight or what a layer reads is not finite; nothing was pruned");
  for (size_t j = 0; j < outputs.size(); ++j)
    if (outputs[j] >= 0 && sum > 0)
      scores[static_cast<size_t>(outputs[j])] +=
          of_channels[j] / sum * static_cast<double>(of_channels.size());
}

}  // namespace

std::vector<double> channel_scores(const ChannelFlow& flow, const std::function<void()>& run,
                                   ChannelCriterion criterion) {
  std::vector<double> scores(flow.outputs.size(), 0.0);
  std::vector<std::vector<double>> seen(flow.sites.size());
  if (criterion == ChannelCriterion::activations) {
    BRIM_CHECK(run, ValueError, "[prune] the criterion activations needs data to run over");
    std::vector<nn::Module::HookHandle> hooks;
    for (size_t i = 0; i < flow.sites.size(); ++i)
      if (flow.sites[i].kind == Kind::layer)
        hooks.push_back(flow.sites[i].module->register_forward_hook(
            [&, i](nn::Module&, const Tensor& x, const Tensor&) {
              const bool is_last = flow.sites[i].linear != nullptr;
              const auto of_x = magnitudes(x, is_last ? x.rank() - 1 : 1);
              seen[i].resize(of_x.size());
              for (size_t j = 0; j < of_x.size(); ++j) seen[i][j] += of_x[j];
              return Tensor();
            }));
    run();
    BRIM_CHECK(std::ranges::any_of(seen, [](const auto& s) { return !s.empty(); }), ValueError,
               "[prune] the run over the data of the criterion ran no layer: it is empty, or of "
               "another network");
  }
  for (size_t i = 0; i < flow.sites.size(); ++i) {
    const ChannelSite& site = flow.sites[i];
    if (site.kind != Kind::layer) continue;
    std::vector<int64_t> sets;
    if (criterion == ChannelCriterion::magnitude) {
      for (int64_t c = 0; c < site.outputs(); ++c)
        sets.push_back(flow.set_of(site.first_output + c));
      add_shares(magnitudes(site.weight(), 0), sets, scores);
      continue;
    }
    for (const int64_t output : site.reads) sets.push_back(output < 0 ? -1 : flow.set_of(output));
    std::vector<double> of_inputs = magnitudes(site.weight(), 1);
    if (seen[i].size() != of_inputs.size()) continue;
    for (size_t j = 0; j < of_inputs.size(); ++j) of_inputs[j] *= seen[i][j];
    add_shares(std::move(of_inputs), sets, scores);
  }
  return scores;
}

namespace {

/// How many of a layer's channels stay.
int64_t kept_count(int64_t count, double sparsity, int64_t multiple) {
  const auto kept =
      std::max<int64_t>(1, count - std::llround(sparsity * static_cast<double>(count)));
  if (count < multiple) return kept;
  if (count < 2 * multiple) multiple = std::max<int64_t>(1, multiple / 2);
  return std::min(count, (kept + multiple - 1) / multiple * multiple);
}

}  // namespace

std::vector<ChannelGroup> channel_groups(const ChannelFlow& flow,
                                         const std::vector<double>& scores) {
  std::map<int64_t, std::set<size_t>> sites_of;  // of each set
  for (const ChannelFlow::Output& output : flow.outputs) sites_of[output.set].insert(output.site);
  std::map<std::set<size_t>, std::vector<int64_t>> alike;
  for (const auto& [set, sites] : sites_of)
    if (!flow.stays(set)) alike[sites].push_back(set);
  std::vector<ChannelGroup> groups;
  for (auto& [sites, sets] : alike) {
    std::ranges::stable_sort(sets, {}, [&](int64_t s) { return scores[static_cast<size_t>(s)]; });
    groups.push_back({.sites = {sites.begin(), sites.end()}, .sets = std::move(sets)});
  }
  return groups;
}

std::vector<int64_t> ChannelGroup::least(double sparsity, int64_t multiple) const {
  const int64_t count = std::ssize(sets);
  return {sets.begin(), sets.begin() + (count - kept_count(count, sparsity, multiple))};
}

namespace {

/// Which sets of outputs go.
std::set<int64_t> sets_to_go(const ChannelFlow& flow, const std::vector<double>& scores,
                             const ChannelOptions& o) {
  std::set<int64_t> gone;
  for (const ChannelGroup& group : channel_groups(flow, scores)) {
    double sparsity = o.sparsity;
    for (const size_t site : group.sites)
      if (const auto own = o.layers.find(flow.sites[site].name); own != o.layers.end())
        sparsity = own->second;
    const auto is_kept = [&](size_t site) {
      return std::ranges::find(o.dense, flow.sites[site].name) != o.dense.end();
    };
    if (std::ranges::any_of(group.sites, is_kept)) continue;
    const std::vector<int64_t> least = group.least(sparsity, o.multiple);
    gone.insert(least.begin(), least.end());
  }
  return gone;
}

}  // namespace

ChannelCriterion parse_channel_criterion(std::string_view text) {
  if (text == "magnitude") return ChannelCriterion::magnitude;
  BRIM_CHECK(text == "activations", ValueError,
             "[prune] '{}' is no criterion; write magnitude or activations", text);
  return ChannelCriterion::activations;
}

ShrunkNetwork shrink_channels(nn::Module& network, const Tensor& example,
                              const std::function<void()>& run, const ChannelOptions& options) {
  BRIM_CHECK(example.defined() && example.rank() > 0 && example.size(0) > 0, ValueError,
             "[prune] an example of what goes into the network is needed, of one sample or more");
  const NoGrad scope;
  const nn::EvalMode mode(network);
  use_dense(network);
  const ChannelFlow flow = channel_flow(network, example);
  check_channel_options(options, flow);
  const auto gone = sets_to_go(flow, channel_scores(flow, run, options.criterion), options);
  BRIM_CHECK(
      !gone.empty(), ValueError,
      "[prune] no channel can go: all reach the network's output or what mixes channels, are "
      "asked to stay, or are fewer than the {} that go at once (a share of {} is asked for)",
      options.multiple, options.sparsity);
  return ChannelRemoval(network, example, flow, gone, options).keep();
}

void resize_channels(nn::Module& network, const Channels& channels) {
  const NoGrad scope;
  const std::vector<ChannelSite> sites = channel_sites(network);
  for (const auto* numbers : {&channels.inputs, &channels.outputs})
    for (const auto& [name, count] : *numbers) {
      const auto site = std::ranges::find(sites, name, &ChannelSite::name);
      const bool is_input = numbers == &channels.inputs;
      BRIM_CHECK(site != sites.end() && site->kind != Kind::other &&
                     !(is_input && site->kind == Kind::passing),
                 ValueError, "[channels] '{}' is no layer of the network that can have {} {}", name,
                 count, is_input ? "inputs" : "outputs");
      const bool of_inputs = is_input || site->kind == Kind::passing;
      const int64_t now = of_inputs ? site->inputs() : site->outputs();
      BRIM_CHECK(count >= 1 && count <= now, ValueError, "[channels] '{}' has {} {}, not {}", name,
                 now, is_input ? "inputs" : "outputs", count);
    }
  for (const ChannelSite& site : sites) {
    if (site.kind == Kind::other) continue;
    const auto first = [&](const std::map<std::string, int64_t>& numbers, int64_t all) {
      const auto found = numbers.find(site.name);
      std::vector<int64_t> kept(static_cast<size_t>(found == numbers.end() ? all : found->second));
      std::iota(kept.begin(), kept.end(), int64_t{0});
      return kept;
    };
    KeptChannels kept;
    const bool is_layer = site.kind == Kind::layer;
    kept.inputs = first(is_layer ? channels.inputs : channels.outputs, site.inputs());
    if (is_layer) kept.outputs = first(channels.outputs, site.outputs());
    if (!kept.are_all(site)) ChannelParameters(site, kept).put_into(site);
  }
}

}  // namespace brim::compress
