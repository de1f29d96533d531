// Loops over formulas, which the compiler vectorises for each instruction set. Sums of rows are
// added up in lanes of a fixed number, so that they are the same on every CPU.
#include "rt/kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "formula/activation.h"
#include "rt/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

constexpr int64_t kCheap = int64_t{1} << 15;  // elements that are worth a thread
constexpr int64_t kDear = int64_t{1} << 12;

template <class Formula>
void each(int64_t count, int64_t grain, const float* x, float* y, const Threads& threads,
          const Formula& formula) {
  parallel_parts(threads, count, grain, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = formula(x[i]);
  });
}

void run_unary(const UnaryAttributes& attributes, int64_t count, const float* x, float* y,
               const Threads& threads) {
  const float a = static_cast<float>(attributes.a), b = static_cast<float>(attributes.b);
  const formula::Params params{attributes.a, attributes.b};
  const auto cheap = [&](const auto& f) { each(count, kCheap, x, y, threads, f); };
  const auto dear = [&](const auto& f) { each(count, kDear, x, y, threads, f); };
  switch (attributes.formula) {
    case UnaryFormula::clip:
      return cheap([=](float v) HWY_ATTR {
        v = v < a ? a : v;
        return v > b ? b : v;  // NaN stays
      });
    case UnaryFormula::sigmoid:
      return dear([](float v) HWY_ATTR { return formula::sigmoid(v); });
    case UnaryFormula::silu:
      return dear([](float v) HWY_ATTR { return v * formula::sigmoid(v); });
    case UnaryFormula::tanh:
      return dear([](float v) HWY_ATTR { return formula::tanh(v); });
    case UnaryFormula::gelu:
      return dear([=](float v) HWY_ATTR { return formula::Gelu(params)(v); });
    case UnaryFormula::gelu_tanh:
      return dear([=](float v) HWY_ATTR { return formula::GeluTanh(params)(v); });
    case UnaryFormula::exp:
      return dear([](float v) HWY_ATTR { return formula::exp(v); });
    case UnaryFormula::log:
      return dear([](float v) HWY_ATTR { return formula::log(v); });
    case UnaryFormula::sqrt:
      return cheap([](float v) HWY_ATTR { return __builtin_sqrtf(v); });
    case UnaryFormula::reciprocal:
      return cheap([](float v) HWY_ATTR { return 1.0F / v; });
    case UnaryFormula::neg:
      return cheap([](float v) HWY_ATTR { return -v; });
    case UnaryFormula::abs:
      return cheap([](float v) HWY_ATTR { return __builtin_fabsf(v); });
    case UnaryFormula::leaky_relu:
      return cheap([=](float v) HWY_ATTR { return v > 0 ? v : a * v; });
    case UnaryFormula::elu:
      return dear([=](float v) HWY_ATTR { return formula::Elu(params)(v); });
    case UnaryFormula::softplus:
      return dear([](float v) HWY_ATTR {
        // log(1 + exp(v)), without overflow.
        const float tail = formula::log1p(formula::exp(-__builtin_fabsf(v)));
        return v > 0 ? v + tail : tail;
      });
    case UnaryFormula::erf:
      return dear([](float v) HWY_ATTR { return formula::erf(v); });
  }
}

/// The innermost axis of a binary operation: steps of 0 or 1, or any.
template <class Formula>
HWY_INLINE void row(int64_t count, const float* a, int64_t step_a, const float* b, int64_t step_b,
                    float low, float high, float* y, const Formula& formula) {
  const auto end = [=](float v) HWY_ATTR {
    v = v < low ? low : v;
    return v > high ? high : v;
  };
  if (step_a == 1 && step_b == 1)
    for (int64_t i = 0; i < count; ++i) y[i] = end(formula(a[i], b[i]));
  else if (step_a == 1 && step_b == 0)
    for (int64_t i = 0; i < count; ++i) y[i] = end(formula(a[i], *b));
  else
    for (int64_t i = 0; i < count; ++i) y[i] = end(formula(a[i * step_a], b[i * step_b]));
}

template <class Formula>
void binary_rows(const BinaryAttributes& attributes, const BinaryOperands& o, int64_t begin,
                 int64_t end, const Formula& formula) {
  const int64_t inner = o.dims[kMaxRank - 1];
  const float low = static_cast<float>(attributes.low), high = static_cast<float>(attributes.high);
  for (int64_t r = begin; r < end; ++r) {
    int64_t at_a = 0, at_b = 0, rest = r;
    for (int i = kMaxRank - 2; i >= 0; --i) {
      const int64_t at = rest % o.dims[i];
      rest /= o.dims[i];
      at_a += at * o.strides_a[i];
      at_b += at * o.strides_b[i];
    }
    row(inner, o.a + at_a, o.strides_a[kMaxRank - 1], o.b + at_b, o.strides_b[kMaxRank - 1], low,
        high, o.y + r * inner, formula);
  }
}

void run_binary(const BinaryAttributes& attributes, const BinaryOperands& o,
                const Threads& threads) {
  int64_t rows = 1;
  for (int i = 0; i < kMaxRank - 1; ++i) rows *= o.dims[i];
  const int64_t inner = o.dims[kMaxRank - 1];
  if (rows == 0 || inner == 0) return;
  parallel_parts(
      threads, rows, (kCheap + inner - 1) / inner, [&](int64_t, int64_t begin, int64_t end) {
        const auto apply = [&](const auto& f) { binary_rows(attributes, o, begin, end, f); };
        switch (attributes.formula) {
          case BinaryFormula::add:
            return apply([](float a, float b) HWY_ATTR { return a + b; });
          case BinaryFormula::sub:
            return apply([](float a, float b) HWY_ATTR { return a - b; });
          case BinaryFormula::mul:
            return apply([](float a, float b) HWY_ATTR { return a * b; });
          case BinaryFormula::div:
            return apply([](float a, float b) HWY_ATTR { return a / b; });
          case BinaryFormula::max:
            return apply([](float a, float b) HWY_ATTR { return a > b || a != a ? a : b; });
          case BinaryFormula::min:
            return apply([](float a, float b) HWY_ATTR { return a < b || a != a ? a : b; });
        }
      });
}

/// The sum of formula(x[i]), in lanes of a fixed number on every CPU.
template <class Formula>
HWY_INLINE float sum_of(int64_t count, const float* x, const Formula& formula) {
  constexpr int64_t kSums = 16;
  float sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (int64_t k = 0; k < kSums; ++k) sums[k] += formula(x[i + k]);
  for (int64_t k = 0; i < count; ++i, ++k) sums[k] += formula(x[i]);
  for (int64_t half = kSums / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}

void run_softmax(bool logarithm, int64_t rows, int64_t size, const float* x, float* y,
                 const Threads& threads) {
  parallel_parts(
      threads, rows, (kDear + size - 1) / size, [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const float* const from = x + r * size;
          float* const to = y + r * size;
          float max = -std::numeric_limits<float>::infinity();
          for (int64_t i = 0; i < size; ++i) max = from[i] > max ? from[i] : max;
          if (logarithm) {
            const float sum =
                sum_of(size, from, [=](float v) HWY_ATTR { return formula::exp(v - max); });
            const float shift = max + formula::log(sum);
            for (int64_t i = 0; i < size; ++i) to[i] = from[i] - shift;
            continue;
          }
          for (int64_t i = 0; i < size; ++i) to[i] = formula::exp(from[i] - max);
          const float sum = sum_of(size, to, [](float v) HWY_ATTR { return v; });
          for (int64_t i = 0; i < size; ++i) to[i] /= sum;
        }
      });
}

void run_normalize(double epsilon, int64_t rows, int64_t size, const float* x, const float* weight,
                   const float* bias, float* y, const Threads& threads) {
  const float small = static_cast<float>(epsilon), count = static_cast<float>(size);
  parallel_parts(
      threads, rows, (kDear + size - 1) / size, [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const float* const from = x + r * size;
          float* const to = y + r * size;
          const float mean = sum_of(size, from, [](float v) HWY_ATTR { return v; }) / count;
          const float variance =
              sum_of(size, from, [=](float v) HWY_ATTR { return (v - mean) * (v - mean); }) / count;
          const float scale = 1.0F / __builtin_sqrtf(variance + small);
          for (int64_t i = 0; i < size; ++i) to[i] = (from[i] - mean) * scale;
          if (weight)
            for (int64_t i = 0; i < size; ++i) to[i] *= weight[i];
          if (bias)
            for (int64_t i = 0; i < size; ++i) to[i] += bias[i];
        }
      });
}

void run_pack(int64_t k, int64_t n, const float* b, int64_t step, float* panels,
              const Threads& threads) {
  parallel_parts(threads, panels_of(n), (kCheap + k * kPanel) / (k * kPanel + 1),
                 [&](int64_t, int64_t begin, int64_t end) {
                   for (int64_t q = begin; q < end; ++q) {
                     const int64_t first = q * kPanel, count = std::min(kPanel, n - first);
                     float* to = panels + q * k * kPanel;
                     for (int64_t p = 0; p < k; ++p, to += kPanel) {
                       const float* const from = b + p * step + first;
                       for (int64_t i = 0; i < kPanel; ++i) to[i] = i < count ? from[i] : 0.0F;
                     }
                   }
                 });
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_unary);
BRIM_RT_ISA_TABLE(run_binary);
BRIM_RT_ISA_TABLE(run_softmax);
BRIM_RT_ISA_TABLE(run_normalize);
BRIM_RT_ISA_TABLE(run_pack);

void apply_unary(Isa isa, const UnaryAttributes& a, int64_t count, const float* x, float* y,
                 const Threads& threads) {
  run_unary_table.of(isa)(a, count, x, y, threads);
}
void apply_binary(Isa isa, const BinaryAttributes& a, const BinaryOperands& operands,
                  const Threads& threads) {
  run_binary_table.of(isa)(a, operands, threads);
}
void softmax_rows(Isa isa, bool logarithm, int64_t rows, int64_t size, const float* x, float* y,
                  const Threads& threads) {
  run_softmax_table.of(isa)(logarithm, rows, size, x, y, threads);
}
void normalize_rows(Isa isa, double epsilon, int64_t rows, int64_t size, const float* x,
                    const float* weight, const float* bias, float* y, const Threads& threads) {
  run_normalize_table.of(isa)(epsilon, rows, size, x, weight, bias, y, threads);
}
void pack_panels(Isa isa, int64_t k, int64_t n, const float* b, int64_t row, float* panels,
                 const Threads& threads) {
  run_pack_table.of(isa)(k, n, b, row, panels, threads);
}

}  // namespace brim::rt
#endif
