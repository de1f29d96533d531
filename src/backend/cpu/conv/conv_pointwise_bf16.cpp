#include "backend/cpu/conv/conv_pointwise_bf16.h"

#include <algorithm>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/gemm/gemm_bf16.h"
#include "backend/cpu/runtime/parallel.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;
using Rows = Matrix<BFloat16>;

Rows transposed(const Rows& x) { return {x.data, x.col, x.row}; }

/// Pixels are rows of channels: one product over all of them.
void run_nhwc(const Context& context, ConvPass pass, const ConvGeometry& g, const BFloat16* a,
              const BFloat16* b, const Bf16Finish& finish, BFloat16* out) {
  const int64_t pixels = g.n * g.h * g.w;
  const auto multiply = [&](int64_t m, int64_t n, int64_t k, const Rows& left, const Rows& right) {
    const Workspace sums(
        context.workspace(static_cast<size_t>(bf16_sums(m, n, k)) * sizeof(float)));
    gemm_bf16(m, n, k, left, right, out, n, sums.as<float>(), finish);
  };
  switch (pass) {
    case ConvPass::forward:
      return multiply(pixels, g.o, g.c, {a, g.c, 1}, {b, 1, g.c});
    case ConvPass::grad_x:
      return multiply(pixels, g.c, g.o, {a, g.o, 1}, {b, g.c, 1});
    case ConvPass::grad_weight:
      return multiply(g.o, g.c, pixels, {b, 1, g.o}, {a, g.c, 1});
  }
}

/// y = w x for each image, whose channels (`inputs`, `outputs`) are rows of pixels.
void run_images(const Context& context, const ConvGeometry& g, int64_t inputs, int64_t outputs,
                const BFloat16* x, const Rows& w, const Bf16Finish& finish, BFloat16* y) {
  const int64_t pixels = g.h * g.w;
  const int64_t kept = bf16_sums(outputs, pixels, inputs);
  const Workspace sums(context.workspace(static_cast<size_t>(kept) * sizeof(float)));
  const auto images = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      gemm_bf16(outputs, pixels, inputs, w, {x + i * inputs * pixels, pixels, 1},
                y + i * outputs * pixels, pixels, sums.as<float>(), finish);
  };
  if (kept > 0 || g.n < num_threads()) return images(0, g.n);  // threads share each of them
  constexpr int64_t kWork = int64_t{1} << 20;                  // multiply-adds per thread
  parallel_for(g.n, kWork / std::max<int64_t>(1, g.work() / std::max<int64_t>(1, g.n)) + 1, images);
}

void run_planes(const Context& context, ConvPass pass, const ConvGeometry& g, const BFloat16* a,
                const BFloat16* b, const Bf16Finish& finish, BFloat16* out) {
  const Rows w{b, g.c, 1};
  if (pass == ConvPass::forward) return run_images(context, g, g.c, g.o, a, w, finish, out);
  if (pass == ConvPass::grad_x)
    return run_images(context, g, g.o, g.c, a, transposed(w), finish, out);
  // The sum over images of dy x^T.
  const int64_t pixels = g.h * g.w;
  const Workspace sums(context.workspace(static_cast<size_t>(g.o * g.c) * sizeof(float)));
  for (int64_t i = 0; i < g.n; ++i)
    gemm_bf16(g.o, g.c, pixels, {b + i * g.o * pixels, pixels, 1},
              {a + i * g.c * pixels, 1, pixels}, out, g.c, sums.as<float>(),
              {.begun = i > 0, .more = i + 1 < g.n});
}

}  // namespace

bool conv_pointwise_bf16_supports(const ConvGeometry& g) {
  return multiplies_bf16() && g.kh == 1 && g.kw == 1 && g.groups == 1 && g.h == g.oh &&
         g.w == g.ow && g.stride.h == 1 && g.stride.w == 1 && g.padding.h == 0 && g.padding.w == 0;
}

void conv_pointwise_bf16(const Context& context, bool nhwc, ConvPass pass, const ConvGeometry& g,
                         const BFloat16* a, const BFloat16* b,
                         const ConvEpilogue<BFloat16>& epilogue, BFloat16* out) {
  const Workspace wide(
      context.workspace(static_cast<size_t>(epilogue.bias ? g.o : 0) * sizeof(float)));
  Bf16Finish finish{.relu = epilogue.relu};
  if (epilogue.bias) {
    convert_run(epilogue.bias, wide.as<float>(), g.o);
    (nhwc ? finish.bias : finish.row_bias) = wide.as<float>();
  }
  (nhwc ? run_nhwc : run_planes)(context, pass, g, a, b, finish, out);
}

}  // namespace brim::cpu
