// Layers in 8-bit integers, and f32 to u8.
#include "rt/kernels/int8.h"

#include "rt/ops/windows.h"
#include "rt/step.h"

namespace brim::rt {
namespace {

constexpr int64_t kMaxCovered = int64_t{1} << 44;  // bytes

bool is_u8(const Operand& x, int rank) { return x.dtype == DType::u8 && x.rank == rank; }

bool is_zero_point(int64_t value) { return value >= 0 && value <= 255; }

int check_quantize(const Step& s, const Failure& fail) {
  if (!s.has_attributes<QuantizeAttributes>() || s.inputs != 1 || s.outputs != 1 ||
      s.in(0).dtype != DType::f32 || s.out(0).dtype != DType::u8 ||
      s.in(0).count() != s.out(0).count() ||
      !is_zero_point(s.attributes<QuantizeAttributes>().zero_point))
    return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

int run_quantize(const Step& s, const Run& run, const Failure&) {
  const auto a = s.attributes<QuantizeAttributes>();
  quantize(run.isa, s.in(0).count(), s.in(0).as<float>(), static_cast<float>(a.inverse),
           static_cast<int32_t>(a.zero_point), s.out(0).as<uint8_t>(), run.threads);
  return BRIM_RT_OK;
}

int check_quantize_colours(const Step& s, const Failure& fail) {
  if (check_quantize(s, fail) != BRIM_RT_OK) return BRIM_RT_DAMAGED;
  const Operand &x = s.in(0), &y = s.out(0);
  const bool fits = x.rank == 4 && y.rank == 4 && x.dims[1] == 3 && y.dims[3] == 3 &&
                    x.dims[0] == y.dims[0] && x.dims[2] == y.dims[1] && x.dims[3] == y.dims[2];
  return fits ? BRIM_RT_OK : does_not_fit(s, fail);
}

int run_quantize_colours(const Step& s, const Run& run, const Failure&) {
  const auto a = s.attributes<QuantizeAttributes>();
  const Operand& x = s.in(0);
  quantize_colours(run.isa,
                   {x.dims[0], x.dims[2] * x.dims[3], x.as<float>(), s.out(0).as<uint8_t>()},
                   static_cast<float>(a.inverse), static_cast<int32_t>(a.zero_point), run.threads);
  return BRIM_RT_OK;
}

Int8Convolution convolution_of(const Step& s) {
  const auto a = s.attributes<Int8ConvolutionAttributes>();
  const Operand &x = s.in(0), &y = s.out(0), &last = s.out(s.outputs - 1);
  return {.a = a.windows,
          .n = x.dims[0],
          .h = x.dims[1],
          .w = x.dims[2],
          .c = x.dims[3],
          .oh = y.dims[1],
          .ow = y.dims[2],
          .o = y.dims[3],
          .x = x.as<uint8_t>(),
          .weights = s.in(1).as<uint8_t>(),
          .scale = s.in(2).as<float>(),
          .shift = s.in(3).as<float>(),
          .residual = s.in_or_null<float>(4),
          .y = y.dtype == DType::f32 ? y.as<float>() : nullptr,
          .q = last.dtype == DType::u8 ? last.as<uint8_t>() : nullptr,
          .zero_point = static_cast<int32_t>(a.zero_point),
          .inverse = static_cast<float>(a.next.inverse),
          .next_zero_point = static_cast<int32_t>(a.next.zero_point)};
}

/// One result in f32 or u8, or first the one and then the other.
bool has_results(const Step& s) {
  if (s.outputs == 1) return s.out(0).is_f32(4) || is_u8(s.out(0), 4);
  return s.outputs == 2 && s.out(0).is_f32(4) && is_u8(s.out(1), 4) &&
         s.out(0).has_sizes_of(s.out(1));
}

/// a * b, or false beyond `most`; both are 0 or more.
bool multiply(int64_t a, int64_t b, int64_t most, int64_t& product) {
  return !__builtin_mul_overflow(a, b, &product) && product <= most;
}

int check_convolution(const Step& s, const Failure& fail) {
  if (!s.has_attributes<Int8ConvolutionAttributes>() || s.inputs < 4 || s.inputs > 5 ||
      !has_results(s))
    return does_not_fit(s, fail);
  const Operand &x = s.in(0), &y = s.out(0);
  const auto a = s.attributes<Int8ConvolutionAttributes>();
  const ConvolutionAttributes& w = a.windows;
  if (!is_u8(x, 4) || x.dims[0] != y.dims[0] || s.in(1).dtype != DType::u8 ||
      s.in(2).dtype != DType::f32 || s.in(3).dtype != DType::f32 || w.groups != 1 ||
      !are_windows({w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, w.dilation_h, w.dilation_w},
                   {w.top, w.left}) ||
      !is_zero_point(a.zero_point) || !is_zero_point(a.next.zero_point))
    return does_not_fit(s, fail);
  if (s.inputs == 5 && (!s.in(4).is_f32(4) || !s.in(4).has_sizes_of(y)))
    return does_not_fit(s, fail);
  // Sizes of what windows cover and of a panel, before they are used.
  const Int8Convolution k = convolution_of(s);
  int64_t rows, columns, bytes, segment, taps, panel, products;
  if (!multiply(k.oh, w.stride_h, kMaxCovered, rows) ||
      !multiply(k.ow, w.stride_w, kMaxCovered, columns) ||
      !multiply(k.covered_h(), k.covered_w(), kMaxCovered, bytes) ||
      !multiply(bytes, k.c, kMaxCovered, bytes) || !multiply(bytes, k.n, kMaxCovered, bytes) ||
      !multiply(w.kernel_w, k.c, kMaxCovered, segment) ||
      !multiply(w.kernel_h * w.kernel_w, k.c + 3, kMaxCovered, taps) ||
      !multiply(k.n * k.oh * k.ow, taps, kMaxCovered, products) ||
      !multiply(panels_of(k.o), k.panel_bytes(), kMaxCovered, panel) || panel != s.in(1).count() ||
      panels_of(k.o) * kPanel != s.in(2).count() || s.in(3).count() != s.in(2).count())
    return does_not_fit(s, fail);
  // Windows far apart or beside the image cover more than anybody stores.
  return is_in_proportion(s, k.scratch()) ? BRIM_RT_OK : does_not_fit(s, fail);
}

size_t scratch_of_convolution(const Step& s, Isa, int) { return convolution_of(s).scratch(); }

int run_convolution(const Step& s, const Run& run, const Failure&) {
  convolve_int8(run.isa, convolution_of(s), run.threads, static_cast<uint8_t*>(run.scratch));
  return BRIM_RT_OK;
}

int check_winograd(const Step& s, const Failure& fail) {
  if (const int code = check_convolution(s, fail)) return code;
  return convolution_of(s).has_winograd() ? BRIM_RT_OK : does_not_fit(s, fail);
}

size_t scratch_of_winograd(const Step& s, Isa isa, int threads) {
  return int8_winograd_scratch(isa, convolution_of(s), threads);
}

int run_winograd(const Step& s, const Run& run, const Failure&) {
  convolve_int8_winograd(run.isa, convolution_of(s), run.threads,
                         static_cast<uint8_t*>(run.scratch));
  return BRIM_RT_OK;
}

}  // namespace

const Op kQuantizeOp = {OpCode::quantize, "quantize", &check_quantize, nullptr, &run_quantize};
const Op kQuantizeColoursOp = {OpCode::quantize_colours, "quantize_colours",
                               &check_quantize_colours, nullptr, &run_quantize_colours};
const Op kInt8ConvolutionOp = {OpCode::int8_convolution, "int8_convolution", &check_convolution,
                               &scratch_of_convolution, &run_convolution};
const Op kInt8WinogradOp = {OpCode::int8_winograd, "int8_winograd", &check_winograd,
                            &scratch_of_winograd, &run_winograd};

}  // namespace brim::rt
