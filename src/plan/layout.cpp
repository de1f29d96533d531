#include "plan/layout.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "backend/elementwise_chain.h"
#include "backend/kernel.h"

namespace brim::plan {

thread_local std::optional<MemoryFormat> forced_layout;

const char* name(MemoryFormat format) {
  return format == MemoryFormat::nhwc ? "nhwc" : format == MemoryFormat::chwn ? "chwn" : "nchw";
}

namespace {

/// Kernels whose strides decide, and their operands that are activations.
const std::vector<size_t>* find_kernel(std::string_view kernel) {
  static const std::unordered_map<std::string_view, std::vector<size_t>> kernels{
      {"conv2d", {0, 3}},
      {"conv2d_grad_x", {0, 2}},
      {"conv2d_grad_weight", {0, 1}},
      {"batch_norm", {0, 7}},
      {"batch_norm_grad", {0, 1, 5}},
      {"batch_norm_relu", {0, 5, 8}},
      {"batch_norm_relu_grad", {0, 1, 6, 7, 10}},
      {"max_pool2d", {0, 1, 2}},
      {"max_pool2d_scatter", {0, 1, 2}},
      {"avg_pool2d", {0, 1}},
      {"avg_pool2d_spread", {0, 1}},
      {"adaptive_avg_pool2d", {0, 1}},
      {"adaptive_avg_pool2d_spread", {0, 1}},
  };
  const auto found = kernels.find(kernel);
  return found == kernels.end() ? nullptr : &found->second;
}

/// Weights, or their gradient, of convolutions whose kernels like them in the activations' format,
/// and turn them where they are not.
std::optional<size_t> find_weight(const Launch& launch) {
  if (launch.device().kind != DeviceKind::cuda) return {};  // the CPU's want row-major ones
  if (is(launch, "conv2d") || is(launch, "conv2d_grad_x")) return 1;
  if (is(launch, "conv2d_grad_weight")) return 2;
  return {};
}

bool plain(const Tensor& t) { return t.rank() == 4 && t.is_contiguous() && t.offset() == 0; }

}  // namespace

Activations activations_of(const Launch& launch) {
  Activations a;
  const auto operands = launch.operands();
  if (is(launch, "copy") && launch.operand(0).shape() == launch.operand(1).shape()) {
    a = {.operands = {1},
         .converted = {0},
         .formats = {kFormats.begin(), kFormats.end()},
         .elementwise = true};
  } else if (const std::vector<size_t>* listed = find_kernel(launch.name())) {
    a.formats = {MemoryFormat::nchw, MemoryFormat::nhwc};
    for (const size_t i : *listed)
      if (launch.operand(i).defined()) a.operands.push_back(i);
    const auto weight = find_weight(launch);
    if (weight && plain(launch.operand(*weight))) a.converted.push_back(*weight);
  } else if (backend::find_elementwise(launch.name(), launch.dtype())) {
    a.formats.assign(kFormats.begin(), kFormats.end());
    a.elementwise = true;
    const Shape& shape = operands.back().tensor->shape();
    for (size_t i = 0; i < operands.size(); ++i) {
      if (launch.operand(i).numel() == 1 && shape.numel() != 1) continue;
      if (launch.operand(i).shape() != shape) return {};
      a.operands.push_back(i);
    }
  }
  for (const auto* list : {&a.operands, &a.converted})
    for (const size_t i : *list)
      if (!plain(launch.operand(i))) return {};
  return a;
}

void arrange(Launch& launch, const Activations& activations, MemoryFormat format) {
  for (const auto* list : {&activations.operands, &activations.converted})
    for (const size_t i : *list) arrange(*launch.operands()[i].tensor, format);
}

void arrange(Tensor& t, MemoryFormat format) {
  t = t.alias(t.shape(), strides_of(t.shape(), format), t.offset());
}

std::unique_ptr<Launch> conversion(const Tensor& from, Tensor& to) {
  static const backend::Kernel<void(const Context&, const Tensor&, Tensor&)> kernel("copy");
  return kernel.launch(from.device(), to.dtype(), from, to);
}

}  // namespace brim::plan
