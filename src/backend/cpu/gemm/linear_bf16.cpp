#include "backend/cpu/gemm/linear_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/linear_bf16.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/gemm/gemm_bf16.h"
#include "backend/cpu/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using Rows = Matrix<BFloat16>;

/// Columns [begin, end) of dz and, if db is not null, their sums. dz, with rows `ld` apart, is
/// written unless it is null, where it is dy; y.data may be null.
void prepare(int64_t begin, int64_t end, int64_t rows, Rows dy, Rows y, BFloat16* dz, int64_t ld,
             float* db) {
  if (db) std::fill(db + begin, db + end, 0.0f);
  for (int64_t n = 0; n < rows; ++n) {
    const BFloat16* row = dy.data + n * dy.row;
    if (dz) {
      const BFloat16* out = y.data ? y.data + n * y.row : nullptr;
      BFloat16* HWY_RESTRICT to = dz + n * ld;
      if (dy.col == 1 && out && y.col == 1) {
        for (int64_t o = begin; o < end; ++o)
          to[o].bits = static_cast<float>(out[o]) <= 0.0f ? uint16_t{0} : row[o].bits;
      } else {
        for (int64_t o = begin; o < end; ++o)
          to[o] = out && static_cast<float>(out[o * y.col]) <= 0.0f ? BFloat16() : row[o * dy.col];
      }
      row = to;
    }
    if (db)
      for (int64_t o = begin; o < end; ++o) db[o] += static_cast<float>(row[o]);
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {
namespace {

HWY_EXPORT(prepare);

Matrix<BFloat16> matrix(const Tensor& x) {
  if (!x.defined()) return {nullptr, 0, 0};
  return {static_cast<const BFloat16*>(x.raw()), x.strides()[0], x.strides()[1]};
}
Matrix<BFloat16> transposed(const Matrix<BFloat16>& x) { return {x.data, x.col, x.row}; }

/// gemm_bf16 into a contiguous c.
void multiply(const Context& context, int64_t k, const Matrix<BFloat16>& a,
              const Matrix<BFloat16>& b, Tensor& c, const Bf16Finish& finish = {}) {
  const int64_t m = c.shape()[0], n = c.shape()[1];
  const Workspace sums(context.workspace(static_cast<size_t>(bf16_sums(m, n, k)) * sizeof(float)));
  gemm_bf16(m, n, k, a, b, static_cast<BFloat16*>(c.raw()), n, sums.as<float>(), finish);
}

}  // namespace

void linear_bf16(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y, bool relu) {
  const int64_t outputs = y.shape()[1];
  const Workspace space(
      context.workspace(static_cast<size_t>(bias.defined() ? outputs : 0) * sizeof(float)));
  Bf16Finish finish{.relu = relu};
  if (bias.defined()) {
    const BFloat16* from = static_cast<const BFloat16*>(bias.raw());
    float* to = space.as<float>();
    for (int64_t o = 0; o < outputs; ++o) to[o] = static_cast<float>(from[o * bias.strides()[0]]);
    finish.bias = to;
  }
  multiply(context, x.shape()[1], matrix(x), transposed(matrix(weight)), y, finish);
}

void linear_grad_bf16(const Context& context, const Tensor& x, const Tensor& weight,
                      const Tensor& dy, const Tensor& y, Tensor& dx, Tensor& dw, Tensor& db) {
  const int64_t rows = dy.shape()[0], outputs = dy.shape()[1];
  const bool write = y.defined() || (db.defined() && dy.strides()[1] != 1 && outputs > 1);
  const Workspace space(
      context.workspace(static_cast<size_t>(write ? rows * outputs : 0) * sizeof(BFloat16)));
  const Workspace sums(
      context.workspace(static_cast<size_t>(db.defined() ? outputs : 0) * sizeof(float)));
  BFloat16* const written = write ? space.as<BFloat16>() : nullptr;
  float* const wide_db = db.defined() ? sums.as<float>() : nullptr;
  if (write || wide_db) {
    constexpr int64_t kUnit = 256, kGrain = int64_t{1} << 16;  // columns, numbers of a part
    parallel_for((outputs + kUnit - 1) / kUnit, kGrain / std::max<int64_t>(1, kUnit * rows) + 1,
                 [&](int64_t begin, int64_t end) {
                   HWY_DYNAMIC_DISPATCH(prepare)
                   (begin * kUnit, std::min(outputs, end * kUnit), rows, matrix(dy), matrix(y),
                    written, outputs, wide_db);
                 });
  }
  if (wide_db) convert_run(wide_db, static_cast<BFloat16*>(db.raw()), outputs);
  const Matrix<BFloat16> dz = write ? Matrix<BFloat16>{written, outputs, 1} : matrix(dy);
  if (dx.defined()) multiply(context, outputs, dz, matrix(weight), dx);
  if (dw.defined()) multiply(context, rows, transposed(dz), matrix(x), dw);
}

}  // namespace brim::cpu
#endif
