#include "compress/channel_flow.h"

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>

#include <functional>
#include <limits>
#include <set>
#include <utility>

namespace brim::compress {
namespace {

using Kind = ChannelSite::Kind;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kNone = -1, kMixed = -2;

void collect_sites(nn::Module& module, const std::string& name, std::vector<ChannelSite>& all) {
  ChannelSite site{.name = name, .module = &module};
  site.conv = dynamic_cast<nn::Conv2d*>(&module);
  site.linear = dynamic_cast<nn::Linear*>(&module);
  site.norm = dynamic_cast<nn::BatchNorm2d*>(&module);
  size_t own = module.parameters().size();
  for (const auto& [_, child] : module.named_children()) own -= child->parameters().size();
  if (site.linear || (site.conv && site.conv->options.groups == 1)) {
    site.kind = Kind::layer;
  } else if (site.conv) {
    const auto& o = site.conv->options;
    if (o.groups == o.in && o.in == o.out) site.kind = Kind::passing;
  } else if (site.norm && site.norm->options.track_running_stats &&
             !site.norm->has_own_normalisation()) {
    site.kind = Kind::passing;
  }
  if (own > 0 || site.norm) all.push_back(std::move(site));
  for (const auto& [child_name, child] : module.named_children())
    collect_sites(*child, name.empty() ? child_name : name + "." + child_name, all);
}

int channel_axis(const Tensor& x, bool is_last) { return is_last ? x.rank() - 1 : 1; }

/// Of (samples, channels): whether any number of it is NaN.
std::vector<std::vector<bool>> nans_of(const Tensor& x, int axis) {
  std::vector<int> others;
  for (int i = 1; i < x.rank(); ++i)
    if (i != axis) others.push_back(i);
  const Tensor is_nan = isnan(x).to(f32);
  const std::vector<float> counts =
      (others.empty() ? is_nan : sum(is_nan, others)).contiguous().to_vector<float>();
  const auto samples = static_cast<size_t>(x.size(0));
  const size_t channels = counts.size() / samples;
  std::vector<std::vector<bool>> all(samples, std::vector<bool>(channels));
  for (size_t i = 0; i < counts.size(); ++i) all[i / channels][i % channels] = counts[i] > 0;
  return all;
}

/// What is sent: outputs of one site, told apart by the samples in which they are NaN. Sample 2 b
/// has those whose number has the bit b, the next one the others.
struct Probe {
  int64_t outputs;
  int64_t bits() const {
    int64_t n = 1;
    while (int64_t{1} << n < outputs) ++n;
    return n;
  }
  int64_t samples() const { return 2 * bits(); }
  /// (samples, outputs): NaN or 0.
  Tensor numbers(Device device) const {
    std::vector<float> all(static_cast<size_t>(samples() * outputs), 0.0F);
    for (int64_t b = 0; b < bits(); ++b)
      for (int64_t c = 0; c < outputs; ++c)
        all[static_cast<size_t>((2 * b + (c >> b & 1 ? 0 : 1)) * outputs + c)] =
            std::numeric_limits<float>::quiet_NaN();
    return Tensor::from<float>(all, {samples(), outputs}, device);
  }
  /// Which of the outputs arrived, by the NaN of a channel.
  std::vector<int64_t> arrived(const Tensor& x, int axis) const {
    const auto is_nan = nans_of(x, axis);
    std::vector<int64_t> all(is_nan[0].size(), kNone);
    for (size_t j = 0; j < all.size(); ++j) {
      int64_t output = 0, with = 0, without = 0, both = 0;
      for (int64_t b = 0; b < bits(); ++b) {
        const bool one = is_nan[static_cast<size_t>(2 * b)][j];
        const bool zero = is_nan[static_cast<size_t>(2 * b + 1)][j];
        if (one) output |= int64_t{1} << b;
        (one || zero ? with : without) += 1;
        both += one && zero ? 1 : 0;
      }
      if (with > 0) all[j] = both > 0 || without > 0 || output >= outputs ? kMixed : output;
    }
    return all;
  }
};

class Tracer {
 public:
  Tracer(nn::Module& network, const Tensor& example) : network_(network), example_(example) {
    collect_sites(network, "", flow_.sites);
    for (size_t i = 0; i < flow_.sites.size(); ++i) {
      ChannelSite& site = flow_.sites[i];
      if (site.kind != Kind::other) site.reads.assign(static_cast<size_t>(site.inputs()), kNone);
      if (site.kind != Kind::layer) continue;
      site.first_output = std::ssize(flow_.outputs);
      for (int64_t c = 0; c < site.outputs(); ++c)
        flow_.outputs.push_back({.site = i, .channel = c, .set = std::ssize(flow_.outputs)});
    }
  }

  ChannelFlow traced() {
    count_calls();
    hold_shared();
    send_from_input();
    for (size_t i = 0; i < flow_.sites.size(); ++i) send_from(i);
    for (const auto& [site, channel] : fixed_)
      if (const int64_t output = flow_.sites[site].reads[static_cast<size_t>(channel)]; output >= 0)
        hold(output);
    for (size_t o = 0; o < flow_.outputs.size(); ++o)
      flow_.outputs[o].set = find(static_cast<int64_t>(o));
    return std::move(flow_);
  }

 private:
  using Look = std::function<Tensor(size_t site, const Tensor& x, const Tensor& y)>;

  Tensor run(int64_t samples, const Tensor& x, const Look& look) {
    std::vector<nn::Module::HookHandle> hooks;
    for (size_t i = 0; i < flow_.sites.size(); ++i)
      if (flow_.sites[i].module != &network_ || flow_.sites[i].kind != Kind::other)
        hooks.push_back(flow_.sites[i].module->register_forward_hook(
            [i, &look](nn::Module&, const Tensor& in, const Tensor& y) { return look(i, in, y); }));
    Shape shape = x.shape();
    shape[0] = samples;
    return network_(x.expand(shape).contiguous());
  }
  Tensor sample() const { return example_.slice(0, 0, 1); }

  void count_calls() {
    calls_.assign(flow_.sites.size(), 0);
    integers_.resize(flow_.sites.size());
    (void)run(1, sample(), [&](size_t i, const Tensor& x, const Tensor&) {
      ++calls_[i];
      if (!is_floating(x.dtype())) integers_[i] = x.to(i64).contiguous().to_vector<int64_t>();
      return Tensor();
    });
  }

  /// What several modules share, or one is called with several times, keeps its channels.
  void hold_shared() {
    std::set<const Storage*> seen, shared;
    for (const ChannelSite& site : flow_.sites)
      if (site.conv || site.linear)
        if (!seen.insert(site.weight().storage().get()).second)
          shared.insert(site.weight().storage().get());
    for (size_t i = 0; i < flow_.sites.size(); ++i) {
      const ChannelSite& site = flow_.sites[i];
      const bool is_shared =
          (site.conv || site.linear) && shared.contains(site.weight().storage().get());
      holds_.push_back(site.kind == Kind::other || calls_[i] != 1 || is_shared);
      if (holds_[i] && site.kind == Kind::layer) hold_outputs(site);
    }
  }
  void hold_outputs(const ChannelSite& site) {
    for (int64_t c = 0; c < site.outputs(); ++c) hold(site.first_output + c);
  }

  /// What comes from elsewhere than the outputs of layers: channels that it reaches stay.
  void look_at_constant(size_t i, const Tensor& x) {
    const ChannelSite& site = flow_.sites[i];
    if (site.kind == Kind::other || x.rank() < 2 || !is_floating(x.dtype())) return;
    const auto is_nan = nans_of(x, channel_axis(x, site.linear != nullptr));
    if (is_nan[0].size() != site.reads.size()) return;
    for (size_t j = 0; j < is_nan[0].size(); ++j)
      if (is_nan[0][j]) fixed_.insert({i, static_cast<int64_t>(j)});
  }

  void send_from_input() {
    if (!is_floating(example_.dtype())) return;
    (void)run(
        1, full(sample().shape(), kNaN, {.dtype = example_.dtype(), .device = example_.device()}),
        [&](size_t i, const Tensor& x, const Tensor& y) { return stop(i, x, y, true); });
  }

  /// A site that is reached by what can not go; what it puts out.
  Tensor stop(size_t i, const Tensor& x, const Tensor& y, bool looks) {
    if (looks) look_at_constant(i, x);
    return flow_.sites[i].kind == Kind::passing ? Tensor() : zeros_like(y);
  }

  void send_from(size_t source) {
    const ChannelSite& site = flow_.sites[source];
    if (calls_[source] == 0 || site.kind == Kind::passing) return;
    if (site.kind == Kind::other) {
      if (site.module == &network_) return;
      (void)run(1, sample(), [&](size_t i, const Tensor& x, const Tensor& y) {
        return i == source ? full(y.shape(), kNaN, {.dtype = y.dtype(), .device = y.device()})
                           : stop(i, x, y, true);
      });
      return;
    }
    const Probe probe{site.outputs()};
    const Tensor reached =
        run(probe.samples(), sample(), [&](size_t i, const Tensor& x, const Tensor& y) {
          if (i == source) return sent(probe, site, y);
          arrive(i, probe, site, x, y);
          return stop(i, x, y, false);
        });
    for (const int64_t output : probe.arrived(reached.reshape({reached.size(0), -1}), 1)) {
      if (output >= 0) hold(site.first_output + output);
      if (output == kMixed) hold_outputs(site);
    }
  }

  static Tensor sent(const Probe& probe, const ChannelSite& site, const Tensor& y) {
    Shape shape = y.shape();
    for (int i = 1; i < y.rank(); ++i) shape[i] = 1;
    shape[channel_axis(y, site.linear != nullptr)] = probe.outputs;
    return zeros_like(y) + probe.numbers(y.device()).to(y.dtype()).reshape(shape);
  }

  void arrive(size_t i, const Probe& probe, const ChannelSite& source, const Tensor& x,
              const Tensor& y) {
    ChannelSite& site = flow_.sites[i];
    if (is_as_before(i, x)) return;
    if (!is_floating(x.dtype()) || x.rank() < 2 || x.size(0) != probe.samples()) {
      hold_outputs(source);  // samples are not told apart
      return;
    }
    if (site.kind == Kind::other || holds_[i]) {
      for (const Tensor* t : {&x, &y})
        for (const int64_t output : probe.arrived(t->reshape({t->size(0), -1}), 1)) {
          if (output >= 0) hold(source.first_output + output);
          if (output == kMixed && (t == &x || site.kind == Kind::other)) hold_outputs(source);
        }
      return;
    }
    const auto arrived = probe.arrived(x, channel_axis(x, site.linear != nullptr));
    for (size_t j = 0; j < arrived.size(); ++j) {
      if (arrived[j] == kMixed) hold_outputs(source);
      if (arrived[j] < 0) continue;
      const int64_t output = source.first_output + arrived[j];
      if (site.reads[j] == kNone)
        site.reads[j] = output;
      else
        unite(site.reads[j], output);
    }
  }

  /// Whether integers that a site reads, as an embedding does, are those of the sample: they come
  /// from the network's input, or are constants, and depend on no output.
  bool is_as_before(size_t i, const Tensor& x) const {
    if (is_floating(x.dtype()) || integers_[i].empty()) return false;
    const std::vector<int64_t> now = x.to(i64).contiguous().to_vector<int64_t>();
    if (now.size() % integers_[i].size() != 0) return false;
    for (size_t j = 0; j < now.size(); ++j)
      if (now[j] != integers_[i][j % integers_[i].size()]) return false;
    return true;
  }

  int64_t find(int64_t output) {
    auto& all = flow_.outputs;
    while (all[static_cast<size_t>(output)].set != output)
      output = all[static_cast<size_t>(output)].set =
          all[static_cast<size_t>(all[static_cast<size_t>(output)].set)].set;
    return output;
  }
  void hold(int64_t output) { flow_.outputs[static_cast<size_t>(find(output))].stays = true; }
  void unite(int64_t a, int64_t b) {
    a = find(a), b = find(b);
    if (a == b) return;
    auto &x = flow_.outputs[static_cast<size_t>(a)], &y = flow_.outputs[static_cast<size_t>(b)];
    x.stays = x.stays || y.stays;
    y.set = a;
  }

  nn::Module& network_;
  const Tensor example_;
  ChannelFlow flow_;
  std::vector<int> calls_;
  std::vector<std::vector<int64_t>> integers_;  // that sites read of the sample
  std::vector<bool> holds_;                     // sites whose inputs stay
  std::set<std::pair<size_t, int64_t>> fixed_;  // site, channel that it reads
};

}  // namespace

std::vector<ChannelSite> channel_sites(nn::Module& network) {
  std::vector<ChannelSite> all;
  collect_sites(network, "", all);
  return all;
}

ChannelFlow channel_flow(nn::Module& network, const Tensor& example) {
  return Tracer(network, example).traced();
}

}  // namespace brim::compress
