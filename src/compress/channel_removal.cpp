#include "compress/channel_removal.h"

#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <algorithm>
#include <utility>

#include "compress/channel_parameters.h"
#include "core/check.h"

namespace brim::compress {
namespace {

using Kind = ChannelSite::Kind;

/// Puts weights back that were masked for a while; the last first, as one may have been masked
/// twice.
struct MaskedWeights {
  std::vector<std::pair<Tensor, Tensor>> before;  ///< a weight, and what it was
  MaskedWeights() = default;
  ~MaskedWeights() {
    for (auto at = before.rbegin(); at != before.rend(); ++at) at->first.copy_(at->second);
  }
  MaskedWeights(const MaskedWeights&) = delete;
  MaskedWeights& operator=(const MaskedWeights&) = delete;
};

/// The outputs with zeros in the place of what layers read of the channels that go: what the
/// network without them is to compute. Weights are what they were behind it.
Tensor output_without(nn::Module& network, const Tensor& x, const ChannelFlow& flow,
                      const std::set<int64_t>& gone) {
  MaskedWeights masked;
  for (const ChannelSite& site : flow.sites) {
    if (site.kind != Kind::layer) continue;
    std::vector<float> mask;
    for (const int64_t output : site.reads)
      mask.push_back(output >= 0 && gone.contains(flow.set_of(output)) ? 0.0F : 1.0F);
    Tensor weight = site.weight().detach();
    Shape shape = weight.shape();
    for (int i = 0; i < weight.rank(); ++i) shape[i] = i == 1 ? std::ssize(mask) : 1;
    masked.before.emplace_back(weight, weight.clone());
    weight.copy_(weight * Tensor::from<float>(mask, shape, weight.device()).to(weight.dtype()));
  }
  return network(x);
}

bool are_near(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  const double difference = sum(square(a.to(f64) - b.to(f64))).item();
  return difference <= 1e-6 * (sum(square(b.to(f64))).item() + 1e-12);
}

std::string why_all_stay(const ChannelFlow& flow, const ChannelSite& site,
                         const ChannelOptions& o) {
  if (site.kind != Kind::layer) return "its channels are in groups";
  if (std::ranges::find(o.dense, site.name) != o.dense.end()) return "asked for";
  for (int64_t c = 0; c < site.outputs(); ++c)
    if (!flow.stays(site.first_output + c)) return "there are too few, or others keep theirs";
  return "they reach what cannot lose them: the network's output, or what mixes channels";
}

}  // namespace

struct ChannelRemoval::Before {
  const ChannelSite* site;
  ChannelParameters parameters;
};

ChannelRemoval::ChannelRemoval(nn::Module& network, const Tensor& example, const ChannelFlow& flow,
                               const std::set<int64_t>& gone, const ChannelOptions& options) {
  const Tensor x = example.slice(0, 0, 1).contiguous();
  const Tensor wanted = output_without(network, x, flow, gone);
  try {
    for (const ChannelSite& site : flow.sites) {
      if (!site.norm && !site.conv && !site.linear) continue;
      const KeptChannels kept(flow, site, gone);
      const bool changes = site.kind != Kind::other && !kept.are_all(site);
      ShrunkLayer layer{.name = site.name,
                        .before = ChannelParameters(site).weight.shape(),
                        .after = {},
                        .why = {}};
      if (changes) {
        before_.push_back({&site, ChannelParameters(site)});
        ChannelParameters(site, kept).put_into(site);
        const bool is_layer = site.kind == Kind::layer;
        if (is_layer) result_.channels.inputs[site.name] = std::ssize(kept.inputs);
        result_.channels.outputs[site.name] = std::ssize(is_layer ? kept.outputs : kept.inputs);
      }
      if (site.norm) continue;
      layer.after = site.weight().shape();
      if (layer.after[0] == layer.before[0]) layer.why = why_all_stay(flow, site, options);
      result_.layers.push_back(std::move(layer));
    }
    const Tensor got = network(x);
    BRIM_CHECK(are_near(got, wanted), ValueError, "its outputs are others than expected");
  } catch (const std::exception& e) {
    put_back();
    raise<ValueError>("[prune] the network does not run with fewer channels: {}; it is as before",
                      e.what());
  }
}

ChannelRemoval::~ChannelRemoval() { put_back(); }

void ChannelRemoval::put_back() {
  for (const Before& b : before_) b.parameters.put_into(*b.site);
  before_.clear();
}

ShrunkNetwork ChannelRemoval::keep() {
  before_.clear();
  return std::move(result_);
}

}  // namespace brim::compress
