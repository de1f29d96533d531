// What becomes of the sums of a layer in 8-bit integers, made of the operands of its kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "backend/cpu/int8/int8_rows.h"
#include "backend/cpu/runtime/elements.h"
#include "backend/kernel.h"
#include "backend/options/int8.h"

namespace brim::cpu {

/// Of a kernel's operands, one number for each output; bias and correction may be undefined.
struct Int8Outputs {
  const Tensor &sums, &scales, &bias, &correction;
};

inline size_t int8_finish_bytes(int64_t positions) {
  return 3 * sizeof(float) * static_cast<size_t>(positions);
}

/// In `memory` of int8_finish_bytes(positions). output_of(position): which output stands there, for
/// as many positions as there are outputs; the others give 0.
template <class OutputOf>
Int8Finish int8_finish(const Workspace& memory, int64_t positions, const Int8Outputs& t,
                       const backend::Int8Call& call, const OutputOf& output_of) {
  auto* const start = memory.as<int32_t>();
  auto* const scale = reinterpret_cast<float*>(start + positions);
  float* const shift = scale + positions;
  const auto* const sum = in<int32_t>(t.sums);
  const auto* const factor = in<float>(t.scales);
  const float *const first = in<float>(t.bias), *const second = in<float>(t.correction);
  for (int64_t p = 0; p < positions; ++p) {
    const bool is_used = p < t.scales.numel();
    const int64_t o = is_used ? output_of(p) : 0;
    start[p] = is_used ? -call.input.zero_point * sum[o] : 0;
    scale[p] = is_used ? factor[o] * call.input.scale : 0;
    shift[p] = (is_used && first ? first[o] : 0) + (is_used && second ? second[o] : 0);
  }
  return {.start = start,
          .scale = scale,
          .shift = shift,
          .min = call.relu ? 0 : -std::numeric_limits<float>::infinity(),
          .inverse = call.output ? 1 / call.output->scale : 0,
          .zero_point = call.output ? call.output->zero_point : 0};
}

/// Calls f(T()) of the output's type.
template <class F>
void for_output(const Tensor& y, const F& f) {
  if (y.dtype() == DType::u8)
    f(uint8_t());
  else
    f(float());
}

}  // namespace brim::cpu
