// Layers whose weights have kept columns only (see brim/ops/sparse.h).
#include <algorithm>
#include <vector>

#include "backend/cpu/conv/implicit_gemm.h"
#include "backend/cpu/runtime/elements.h"
#include "backend/cpu/sparse/sparse_index.h"
#include "backend/cpu/sparse/sparse_rows.h"
#include "backend/kernel.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;

/// The weight's operands.
struct Weight : SparseIndex {
  const float* values;

  Weight(const Tensor& v, const Tensor& c, const Tensor& s, const Tensor& o, int64_t all)
      : SparseIndex(c, s, o, v.shape()[1], all), values(in<float>(v)) {}

  SparseGroup group(int64_t g, const int32_t* offsets) const {
    return {values + starts[g] * vector, offsets + starts[g], kept_of(g)};
  }
};

/// Calls take(RowResults) for all blocks and groups.
template <class FindRows, class Take>
void products(const Context& context, const Weight& weight, const int32_t* offsets, const float* x,
              const float* bias, int64_t rows, const FindRows& find_rows, const Take& take) {
  const int64_t vector = weight.vector;
  const size_t bytes = static_cast<size_t>((kRowBlock + 1) * vector) * sizeof(float);
  for_row_blocks(context, rows, weight.groups, weight.work(), bytes, find_rows,
                 [&](const RowBlock& block) {
                   auto* const y = reinterpret_cast<float*>(block.scratch);
                   float* const group_bias = y + kRowBlock * vector;
                   const int64_t first = block.group * vector, used = weight.used_of(block.group);
                   for (int64_t o = 0; o < vector; ++o)
                     group_bias[o] = bias && o < used ? bias[weight.output(first + o)] : 0;
                   sparse_rows({x, block.rows, block.count, vector, group_bias},
                               weight.group(block.group, offsets), y, vector);
                   take(RowResults<float>{.from = y,
                                          .step = vector,
                                          .first = block.first,
                                          .count = block.count,
                                          .output = first,
                                          .used = used,
                                          .order = weight.order_of(block.group)});
                 });
}

void sparse_linear(const Context& context, const Tensor& x, const Tensor& values,
                   const Tensor& columns, const Tensor& starts, const Tensor& outputs,
                   const Tensor& bias, Tensor& y) {
  const int64_t rows = y.shape()[0], count = y.shape()[1], width = x.shape()[1];
  const Weight weight(values, columns, starts, outputs, count);
  weight.check(width);
  products(context, weight, weight.columns, in<float>(x), in<float>(bias), rows, RowsOf{width},
           [to = out<float>(y), count](const RowResults<float>& r) { copy_rows(r, to, count); });
}

void sparse_conv2d(const Context& context, const Tensor& x, const Tensor& values,
                   const Tensor& columns, const Tensor& starts, const Tensor& outputs,
                   const Tensor& bias, Tensor& y, const ConvGeometry& g) {
  const Weight weight(values, columns, starts, outputs, g.o);
  const int64_t area = g.kh * g.kw;
  weight.check(g.c * area);
  const PaddedImages padded{g, g.c};
  const bool is_nhwc = are_nhwc(x, x), y_is_nhwc = are_nhwc(y, y) || g.oh * g.ow == 1;
  const bool as_it_is = (is_nhwc || g.h * g.w == 1) && g.padding == 0;
  const Workspace images =
      context.workspace(as_it_is ? 0 : static_cast<size_t>(g.n * padded.size()) * sizeof(float));
  const float* from = in<float>(x);
  if (!as_it_is) {
    padded.fill(from, is_nhwc, 0.0F, images.as<float>());
    from = images.as<float>();
  }

  const Workspace table =
      context.workspace(static_cast<size_t>(std::max<int64_t>(weight.kept, 1)) * sizeof(int32_t));
  int32_t* const offsets = table.as<int32_t>();
  std::vector<int32_t> taps;
  for (int64_t k = 0; k < area; ++k) taps.push_back(static_cast<int32_t>(padded.offset(k, 0)));
  for (int64_t j = 0; j < weight.kept; ++j) {
    const auto column = static_cast<uint32_t>(weight.columns[j]), all = static_cast<uint32_t>(area);
    offsets[j] = taps[column % all] + static_cast<int32_t>(column / all);
  }

  products(
      context, weight, offsets, from, in<float>(bias), g.n * g.oh * g.ow, padded,
      [&, to = out<float>(y)](const RowResults<float>& r) { copy_to_images(r, y_is_nhwc, g, to); });
}

const bool registered =
    backend::register_kernel("sparse_linear", DeviceKind::cpu, DType::f32, &sparse_linear) &&
    backend::register_kernel("sparse_conv2d", DeviceKind::cpu, DType::f32, &sparse_conv2d);

}  // namespace
}  // namespace brim::cpu
