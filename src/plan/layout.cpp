#include "plan/layout.h"

#include <algorithm>

#include "backend/fused/chain.h"
#include "backend/kernel.h"

namespace brim::plan {

using backend::OperandTraits, backend::Work;

thread_local std::optional<MemoryFormat> forced_layout;

const char* name(MemoryFormat format) {
  return format == MemoryFormat::nhwc ? "nhwc" : format == MemoryFormat::chwn ? "chwn" : "nchw";
}

namespace {

bool plain(const Tensor& t) { return t.rank() == 4 && t.is_contiguous() && t.offset() == 0; }

}  // namespace

Activations activations_of(const Launch& launch) {
  Activations a;
  const auto operands = launch.operands();
  const auto each = [&](const auto& use) {
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i].tensor->defined()) use(i, *operands[i].tensor, launch.traits(operands[i]));
  };
  if (launch.work() == Work::copy && launch.operand("x").shape() == launch.operand("y").shape()) {
    a = {.formats = {kFormats.begin(), kFormats.end()}, .elementwise = true};
    each([&](size_t i, const Tensor&, const OperandTraits& traits) {
      (traits.writes ? a.operands : a.converted).push_back(i);
    });
  } else if (backend::find_elementwise(launch.name(), launch.dtype())) {
    a.formats.assign(kFormats.begin(), kFormats.end());
    a.elementwise = true;
    const Shape& shape = operands.back().tensor->shape();
    for (size_t i = 0; i < operands.size(); ++i) {
      if (launch.operand(i).numel() == 1 && shape.numel() != 1) continue;
      if (launch.operand(i).shape() != shape) return {};
      a.operands.push_back(i);
    }
  } else {
    each([&](size_t i, const Tensor& t, const OperandTraits& traits) {
      if (traits.activation) a.operands.push_back(i);
      if (traits.name == launch.converted() && plain(t)) a.converted.push_back(i);
    });
    if (a.operands.empty()) return {};
    a.formats = {MemoryFormat::nchw, MemoryFormat::nhwc};
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
  static const backend::Kernel<void(const Context&, const Tensor&, Tensor&)> kernel(
      "copy", {.operands = "x, y", .work = Work::copy});
  return kernel.launch(from.device(), to.dtype(), from, to);
}

}  // namespace brim::plan
