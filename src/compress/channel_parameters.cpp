#include "compress/channel_parameters.h"

#include <brim/ops/index.h>

namespace brim::compress {
namespace {

using Kind = ChannelSite::Kind;

/// A copy with these positions of the axis alone, which is trained where t is.
Tensor kept_of(const Tensor& t, int axis, const std::vector<int64_t>& positions) {
  if (!t.defined()) return t;
  const Tensor index = Tensor::from<int64_t>(positions, {std::ssize(positions)}, t.device());
  Tensor kept = index_select(t.detach(), axis, index).contiguous();
  return kept.set_requires_grad(t.requires_grad());
}

}  // namespace

KeptChannels::KeptChannels(const ChannelFlow& flow, const ChannelSite& site,
                           const std::set<int64_t>& gone) {
  for (size_t j = 0; j < site.reads.size(); ++j)
    if (site.reads[j] < 0 || !gone.contains(flow.set_of(site.reads[j])))
      inputs.push_back(static_cast<int64_t>(j));
  if (site.kind != Kind::layer) return;
  for (int64_t c = 0; c < site.outputs(); ++c)
    if (!gone.contains(flow.set_of(site.first_output + c))) outputs.push_back(c);
}

bool KeptChannels::are_all(const ChannelSite& site) const {
  return std::ssize(inputs) == site.inputs() &&
         (site.kind != Kind::layer || std::ssize(outputs) == site.outputs());
}

ChannelParameters::ChannelParameters(const ChannelSite& site) {
  if (site.norm) {
    mean = site.norm->running_mean;
    var = site.norm->running_var;
  }
  weight = site.norm ? site.norm->weight : site.weight();
  bias = site.norm ? site.norm->bias : site.conv ? site.conv->bias : site.linear->bias;
}

ChannelParameters::ChannelParameters(const ChannelSite& site, const KeptChannels& kept)
    : ChannelParameters(site) {
  const bool is_passing = site.kind == Kind::passing;
  const std::vector<int64_t>& outputs = is_passing ? kept.inputs : kept.outputs;
  for (Tensor* t : {&weight, &bias, &mean, &var}) *t = kept_of(*t, 0, outputs);
  if (!is_passing) weight = kept_of(weight, 1, kept.inputs);
}

void ChannelParameters::put_into(const ChannelSite& site) const {
  if (site.norm) return site.norm->replace(weight, bias, mean, var);
  if (site.conv) return site.conv->replace(weight, bias);
  site.linear->replace(weight, bias);
}

}  // namespace brim::compress
