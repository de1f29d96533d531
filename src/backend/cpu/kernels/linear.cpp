// Fully connected layers on the CPU: y = x W^T + b, with or without a ReLU, in one pass. Tiles of
// dot products keep a few rows of W in the L1 cache while the rows of x go by, so that W is read
// once; where there are many rows, W is packed and blocks of rows pass its panels. What neither
// suits goes to gemm.
#include "backend/fused/fused_linear.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/linear.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/gemm/gemm-inl.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/gemm_bf16.h"
#include "backend/cpu/gemm/linear_bf16.h"
#include "backend/cpu/gemm/packed_columns-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kWork = int64_t{1} << 18;  // multiply-adds of a thread's part at least
constexpr int64_t kFewRows = 12;             // of x, from which on copies of W pay off

/// The operands, W perhaps stored in fewer bits; bias is null where there is none.
template <class T, class W = T>
struct Layer {
  const T* x;
  const W* w;
  const T* bias;
  T* y;
  int64_t rows, inputs, outputs;
  int64_t x_row, w_row, bias_step;

  Layer(const Tensor& x_, const Tensor& weight, const Tensor& bias_, const Tensor& y_)
      : x(static_cast<const T*>(x_.raw())),
        w(static_cast<const W*>(weight.raw())),
        bias(bias_.defined() ? static_cast<const T*>(bias_.raw()) : nullptr),
        y(static_cast<T*>(y_.raw())),
        rows(y_.shape()[0]),
        inputs(x_.shape()[1]),
        outputs(y_.shape()[1]),
        x_row(x_.strides()[0]),
        w_row(weight.strides()[0]),
        bias_step(bias_.defined() ? bias_.strides()[0] : 0) {}
};

/// Outputs [begin, end) of rows [first, last); x and W have contiguous rows.
template <bool kRelu, class T, class W>
void dot_block(const Layer<T, W>& layer, int64_t first, int64_t last, int64_t begin, int64_t end) {
  const hn::CappedTag<T, 8> d;  // holds a row of a tile, or is walked over it
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ldy = layer.outputs;
  for (int64_t j = begin; j < end; j += kDotCols) {
    const int64_t stop = std::min(end, j + kDotCols);
    HWY_ALIGN T bias[kDotCols + HWY_MAX_BYTES / sizeof(T)] = {};
    for (int64_t o = j; o < stop && layer.bias; ++o) bias[o - j] = layer.bias[o * layer.bias_step];
    const auto tiles = [&]<int R>(std::integral_constant<int, R>, int64_t i) {
      const auto store = [&, y = layer.y + i * ldy](int64_t at, auto columns, const T* sums) {
        for (int r = 0; r < R; ++r)
          for (int64_t s = 0; s < columns; s += lanes) {
            const int64_t count = std::min<int64_t>(lanes, columns - s);
            auto v = hn::LoadU(d, sums + r * columns + s);
            v = hn::Add(v, hn::LoadU(d, bias + (at - j) + s));
            if (kRelu) v = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);  // NaN stays
            store_part(v, d, hn::FirstN(d, static_cast<size_t>(count)), y + r * ldy + at + s,
                       count);
          }
      };
      dot_row_block<R>(j, stop, layer.inputs, layer.x + i * layer.x_row, layer.x_row, layer.w,
                       layer.w_row, store);
    };
    int64_t i = first;
    for (; i + kDotRows <= last; i += kDotRows) tiles(std::integral_constant<int, kDotRows>(), i);
    for (; i < last; ++i) tiles(std::integral_constant<int, 1>(), i);
  }
}

/// For contiguous rows, fewer than packed_product_wins() asks for: small tiles of dot products read
/// W again too often where x has more than a few rows.
inline bool dot_layer_wins(int64_t rows, int64_t outputs) {
  return !kSmallTiles || rows < kFewRows || outputs <= 24;
}

template <bool kRelu, class T, class W>
void dot_layer(const Layer<T, W>& layer) {
  // As many rows of x as the L2 cache keeps while rows of W pass by.
  const int64_t row = std::max<int64_t>(1, layer.inputs * static_cast<int64_t>(sizeof(T)));
  const int64_t step = std::max<int64_t>(kDotRows, (384 << 10) / row / kDotRows * kDotRows);
  constexpr int64_t kUnit = 2 * kDotCols;
  const int64_t units = (layer.outputs + kUnit - 1) / kUnit;
  const int64_t unit_work = std::max<int64_t>(1, layer.rows * layer.inputs * kUnit);
  parallel_for(units, (kWork + unit_work - 1) / unit_work, [&](int64_t begin, int64_t end) {
    for (int64_t first = 0; first < layer.rows; first += step)
      dot_block<kRelu>(layer, first, std::min(layer.rows, first + step), begin * kUnit,
                       std::min(layer.outputs, end * kUnit));
  });
}

/// y (rows x columns, rows `ldy` apart) holds products of some outputs; bias: theirs.
template <bool kRelu, class T>
void finish_block(int64_t rows, int64_t columns, const T* HWY_RESTRICT bias, T* HWY_RESTRICT y,
                  int64_t ldy) {
  for (int64_t r = 0; r < rows; ++r, y += ldy)
    for (int64_t o = 0; o < columns; ++o) {
      const T sum = y[o] + bias[o];
      y[o] = kRelu && sum < T(0) ? T(0) : sum;  // NaN stays NaN
    }
}

/// The bias of any stride, or zeroes, as dense numbers in `space`.
template <class T>
const T* dense_bias(const Layer<T>& layer, const Workspace& space) {
  T* bias = space.as<T>();
  for (int64_t o = 0; o < layer.outputs; ++o)
    bias[o] = layer.bias ? layer.bias[o * layer.bias_step] : T(0);
  return bias;
}

/// Rows of x contiguous, W of any strides.
template <bool kRelu, class T>
void packed_layer(const Context& context, const Layer<T>& layer, int64_t w_column) {
  const PackedColumns<T> w(context, layer.inputs, layer.outputs,
                           Matrix<T>{layer.w, w_column, layer.w_row});
  const Workspace space(context.workspace(static_cast<size_t>(layer.outputs) * sizeof(T)));
  const T* bias = dense_bias(layer, space);
  packed_product(context, layer.rows, layer.x, layer.x_row, w, layer.y, layer.outputs,
                 [&](int64_t panel, int64_t rows, T* y) {
                   const int64_t o = w.first_column(panel);
                   finish_block<kRelu>(rows, w.columns(panel), bias + o, y + o, layer.outputs);
                 });
}

/// Any strides.
template <bool kRelu, class T>
void gemm_layer(const Context& context, const Layer<T>& layer, int64_t x_column, int64_t w_column) {
  const Workspace space(context.workspace(static_cast<size_t>(layer.outputs) * sizeof(T)));
  const T* bias = dense_bias(layer, space);
  gemm(layer.rows, layer.outputs, layer.inputs, Matrix<T>{layer.x, layer.x_row, x_column},
       Matrix<T>{layer.w, w_column, layer.w_row}, false, layer.y, layer.outputs);
  finish_block<kRelu>(layer.rows, layer.outputs, bias, layer.y, layer.outputs);
}

template <bool kRelu, class T>
void linear(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
            Tensor& y) {
  const Layer<T> layer(x, weight, bias, y);
  if (x.strides()[1] == 1 && packed_product_wins(layer.rows, layer.inputs, layer.outputs))
    return packed_layer<kRelu>(context, layer, weight.strides()[1]);
  const bool rows_dense = layer.inputs <= 1 || (x.strides()[1] == 1 && weight.strides()[1] == 1);
  if (rows_dense && dot_layer_wins(layer.rows, layer.outputs)) return dot_layer<kRelu>(layer);
  gemm_layer<kRelu>(context, layer, x.strides()[1], weight.strides()[1]);
}

/// Weights of 16 bits, without instructions for their products: for few rows, reading them takes
/// the time, so they are widened in registers.
template <bool kRelu, class W>
void linear_16_bits(const Context& context, const Tensor& x, const Tensor& weight,
                    const Tensor& bias, Tensor& y) {
  constexpr Outputs kOutputs = Outputs::written;
  if constexpr (std::is_same_v<W, BFloat16>)
    if (multiplies_bf16()) return linear_bf16(context, x, weight, bias, y, kRelu);
  if constexpr (kLoads<W>) {
    if (y.shape()[0] < kFewRows && x.strides()[1] == 1 && weight.strides()[1] == 1) {
      WideArgument<const Tensor&> wide_x(context, x, kOutputs), wide_bias(context, bias, kOutputs);
      WideArgument<Tensor&> wide_y(context, y, kOutputs);
      dot_layer<kRelu>(Layer<float, W>(wide_x.value(), weight, wide_bias.value(), wide_y.value()));
      return wide_y.finish();
    }
  }
  ThroughF32<&linear<kRelu, float>, kOutputs>::run(context, x, weight, bias, y);
}

template <bool kRelu>
void register_variant(const char* name) {
  backend::register_kernel(name, DeviceKind::cpu, DType::f32, &linear<kRelu, float>);
  backend::register_kernel(name, DeviceKind::cpu, DType::f64, &linear<kRelu, double>);
  backend::register_kernel(name, DeviceKind::cpu, DType::f16, &linear_16_bits<kRelu, Half>);
  backend::register_kernel(name, DeviceKind::cpu, DType::bf16, &linear_16_bits<kRelu, BFloat16>);
}

void register_linear() {
  register_variant<false>("linear");
  register_variant<true>("linear_relu");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_linear);
#endif
