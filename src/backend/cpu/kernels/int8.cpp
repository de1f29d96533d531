// Layers in 8-bit integers, and f32 to u8 and back (see brim/ops/int8.h).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "backend/cpu/conv/implicit_gemm.h"
#include "backend/cpu/int8/int8_finish.h"
#include "backend/cpu/int8/int8_rows.h"
#include "backend/cpu/int8/int8_winograd.h"
#include "backend/cpu/runtime/elements.h"
#include "backend/fused/fused_int8.h"
#include "backend/kernel.h"
#include "backend/options/int8.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;
using backend::Int8Call;

constexpr int64_t kOutputs = 64;  // of a unit of work; whole strips of every instruction set
constexpr int64_t kGrain = int64_t{1} << 16;

/// y: what f makes of runs of x, which lies in the same order.
template <class From, class To, class F>
void for_runs(const Tensor& x, Tensor& y, const F& f) {
  const From* const from = in<From>(x);
  To* const to = out<To>(y);
  parallel_for(x.numel(), kGrain,
               [&](int64_t begin, int64_t end) { f(from + begin, to + begin, end - begin); });
}

void quantize(const Context&, const Tensor& x, Tensor& q, const QuantParams& params) {
  for_runs<float, uint8_t>(x, q, [&](const float* from, uint8_t* to, int64_t n) {
    quantize_run(from, to, n, 1 / params.scale, params.zero_point);
  });
}

void dequantize(const Context&, const Tensor& q, Tensor& x, const QuantParams& params) {
  for_runs<uint8_t, float>(q, x, [&](const uint8_t* from, float* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      to[i] = static_cast<float>(from[i] - params.zero_point) * params.scale;
  });
}

/// values (O, C, KH, KW) or (O, C): in strips of outputs, taps, groups of channels; the rest is 0.
/// Behind all of them the largest sum of an output's magnitudes.
void pack(const Context&, const Tensor& values, Tensor& packed) {
  const Int8Layout layout = int8_layout();
  const int64_t outputs = values.size(0), channels = values.size(1);
  const int64_t area = values.rank() == 4 ? values.size(2) * values.size(3) : 1;
  const auto* const from = in<int8_t>(values);
  auto* const to = out<int8_t>(packed);
  std::fill_n(to, packed.numel(), int8_t{0});
  const int64_t groups = round_up(channels, layout.group) / layout.group, steps = area * groups;
  int32_t largest = 0;
  for (int64_t o = 0; o < outputs; ++o) {
    int32_t magnitudes = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t k = 0; k < area; ++k) {
        magnitudes += std::abs(from[(o * channels + c) * area + k]);
        const int64_t strip = o / layout.lanes, step = k * groups + c / layout.group;
        to[((strip * steps + step) * layout.lanes + o % layout.lanes) * layout.group +
           c % layout.group] = from[(o * channels + c) * area + k];
      }
    largest = std::max(largest, magnitudes);
  }
  std::memcpy(to + packed.numel() - sizeof(largest), &largest, sizeof(largest));
}
int64_t largest_of(const Tensor& packed) {
  int32_t largest;
  std::memcpy(&largest, in<int8_t>(packed) + packed.numel() - sizeof(largest), sizeof(largest));
  return largest;
}

/// The weight of a call, and what becomes of its sums, for whole strips.
class Weight {
 public:
  Weight(const Context& context, const Tensor& packed, const Tensor& sums, const Tensor& scales,
         const Tensor& bias, const Tensor& correction, int64_t steps, const Int8Call& call)
      : layout_(int8_layout()),
        packed_(in<int8_t>(packed)),
        steps_(steps),
        outputs_(scales.numel()),
        padded_(round_up(outputs_, layout_.lanes)),
        numbers_(context.workspace(int8_finish_bytes(padded_))) {
    finish_ = int8_finish(numbers_, padded_, {sums, scales, bias, correction}, call,
                          [](int64_t position) { return position; });
  }

  /// What follows each number, of (rows, outputs) in this order. There are whole strips of outputs.
  void set_epilogue(const Int8Epilogue& epilogue, const std::optional<QuantParams>& next) {
    epilogue_ = epilogue;
    has_epilogue_ = true;
    finish_.inverse = next ? 1 / next->scale : 0;
    finish_.zero_point = next ? next->zero_point : 0;
  }

  /// y: nhwc, or undefined.
  void winograd(const Context& context, const Tensor& x, const Tensor& y, const ConvGeometry& g,
                int32_t zero_point) const {
    Int8Finish finish = finish_;
    if (has_epilogue_) finish.epilogue = &epilogue_;
    int8_winograd(context, in<uint8_t>(x), zero_point, packed_, g, finish,
                  y.defined() ? y.raw() : nullptr);
  }

  int64_t groups() const { return (padded_ + kOutputs - 1) / kOutputs; }

  /// y: (rows, outputs), which are written where they belong if `is_row_major`; else take(
  /// RowResults) brings them there.
  template <class T, class FindRows, class Take>
  void products(const Context& context, const void* x, const int32_t* offsets, int64_t rows, T* y,
                bool is_row_major, const FindRows& find_rows, const Take& take) const {
    const int64_t work = steps_ * layout_.group * std::min(kOutputs, padded_) / 2;
    for_row_blocks(context, rows, groups(), work, kRowBlock * kOutputs * sizeof(T), find_rows,
                   [&](const RowBlock& block) {
                     const int64_t output = block.group * kOutputs;
                     const int64_t padded = std::min(kOutputs, padded_ - output);
                     const int64_t used = std::min(kOutputs, outputs_ - output);
                     Int8Finish finish = finish_;
                     finish.start += output;
                     finish.scale += output;
                     finish.shift += output;
                     const Int8Rows all{.x = x,
                                        .rows = block.rows,
                                        .count = block.count,
                                        .offsets = offsets,
                                        .steps = steps_,
                                        .weights = packed_ + output * steps_ * layout_.group,
                                        .strips = padded / layout_.lanes,
                                        .step_bytes = layout_.lanes * layout_.group,
                                        .strip_bytes = steps_ * layout_.lanes * layout_.group};
                     const int64_t at = block.first * outputs_ + output;
                     Int8Epilogue epilogue = epilogue_;
                     if (has_epilogue_) {
                       move(epilogue, output, at);
                       finish.epilogue = &epilogue;
                     }
                     if (is_row_major && used == padded)
                       return int8_rows(all, finish, y ? y + at : nullptr, outputs_);
                     auto* const part = reinterpret_cast<T*>(block.scratch);
                     int8_rows(all, finish, part, kOutputs);
                     const RowResults<T> results{.from = part,
                                                 .step = kOutputs,
                                                 .first = block.first,
                                                 .count = block.count,
                                                 .output = output,
                                                 .used = used};
                     if (is_row_major)
                       copy_rows(results, y, outputs_);
                     else
                       take(results);
                   });
  }

 private:
  static void move(Int8Epilogue& epilogue, int64_t output, int64_t at) {
    if (epilogue.mean) epilogue.mean += output, epilogue.factor += output, epilogue.shift += output;
    if (epilogue.residual) epilogue.residual += at;
    if (epilogue.q) epilogue.q += at;
  }

  const Int8Layout layout_;
  const int8_t* packed_;
  int64_t steps_, outputs_, padded_;
  const Workspace numbers_;
  Int8Finish finish_{};
  Int8Epilogue epilogue_{};
  bool has_epilogue_ = false;
};

/// Inputs as kernels read them: u8, or i16. `rows` of `width` each are filled up to whole groups.
const void* widened_rows(const Tensor& x, int64_t rows, int64_t width, int64_t padded,
                         int64_t input_bytes, void* to) {
  const auto* const from = in<uint8_t>(x);
  const auto fill = [&](auto* out) {
    parallel_for(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(padded, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r) {
                     std::copy_n(from + r * width, width, out + r * padded);
                     std::fill_n(out + r * padded + width, padded - width, 0);
                   }
                 });
  };
  if (input_bytes == 1)
    fill(static_cast<uint8_t*>(to));
  else
    fill(static_cast<int16_t*>(to));
  return to;
}

void int8_linear(const Context& context, const Tensor& x, const Tensor& packed, const Tensor& sums,
                 const Tensor& scales, const Tensor& bias, const Tensor& correction, Tensor& y,
                 const Int8Call& call) {
  const Int8Layout layout = int8_layout();
  const int64_t rows = y.shape()[0], width = x.shape()[1];
  const int64_t padded = round_up(width, layout.group), steps = padded / layout.group;
  const Weight weight(context, packed, sums, scales, bias, correction, steps, call);
  const bool as_it_is = layout.group == 4 && padded == width;
  const Workspace inputs =
      context.workspace(as_it_is ? 0 : static_cast<size_t>(rows * padded * layout.input_bytes()));
  const void* const from =
      as_it_is ? x.raw()
               : widened_rows(x, rows, width, padded, layout.input_bytes(), inputs.as<void>());
  const Workspace table =
      context.workspace(static_cast<size_t>(std::max<int64_t>(steps, 1)) * sizeof(int32_t));
  auto* const offsets = table.as<int32_t>();
  for (int64_t j = 0; j < steps; ++j) offsets[j] = static_cast<int32_t>(j * layout.group);
  for_output(y, [&]<class T>(T) {
    weight.products(context, from, offsets, rows, out<T>(y), true, RowsOf{padded},
                    [](const auto&...) {});
  });
}

/// Calls body(x, offsets, padded): the inputs as kernels read them, with their padding, and where a
/// step's are from a row's corner.
template <class Body>
void with_padded(const Context& context, const Tensor& x, const ConvGeometry& g, QuantParams input,
                 const Body& body) {
  const Int8Layout layout = int8_layout();
  const PaddedImages padded{g, round_up(g.c, layout.group)};
  const int64_t groups = padded.channels / layout.group, steps = g.kh * g.kw * groups;
  const bool is_nhwc = are_nhwc(x, x);
  const bool as_it_is =
      layout.group == 4 && padded.channels == g.c && g.padding == 0 && (is_nhwc || g.h * g.w == 1);
  const Workspace images = context.workspace(
      as_it_is ? 0 : static_cast<size_t>(g.n * padded.size() * layout.input_bytes()));
  const void* const from = as_it_is ? x.raw() : images.as<void>();
  if (!as_it_is && layout.group == 4)
    padded.fill(in<uint8_t>(x), is_nhwc, static_cast<uint8_t>(input.zero_point),
                images.as<uint8_t>());
  else if (!as_it_is)
    padded.fill(in<uint8_t>(x), is_nhwc, static_cast<int16_t>(input.zero_point),
                images.as<int16_t>());
  const Workspace table =
      context.workspace(static_cast<size_t>(std::max<int64_t>(steps, 1)) * sizeof(int32_t));
  auto* const offsets = table.as<int32_t>();
  for (int64_t j = 0; j < steps; ++j)
    offsets[j] = static_cast<int32_t>(padded.offset(j / groups, j % groups * layout.group));
  body(from, offsets, padded);
}

/// Of the weight of a convolution.
int64_t steps_of(const ConvGeometry& g) {
  const int64_t group = int8_layout().group;
  return g.kh * g.kw * (round_up(g.c, group) / group);
}

/// Whether int8_winograd() takes the call; and the call then, whose sums are those of shifted
/// inputs.
bool goes_to_winograd(const Tensor& x, const Tensor& packed, const ConvGeometry& g) {
  return are_nhwc(x, x) && int8_winograd_wins(g, largest_of(packed));
}
Int8Call shifted(Int8Call call) {
  call.input.zero_point -= kWinogradShift;
  return call;
}

void int8_conv2d(const Context& context, const Tensor& x, const Tensor& packed, const Tensor& sums,
                 const Tensor& scales, const Tensor& bias, const Tensor& correction, Tensor& y,
                 const ConvGeometry& g, const Int8Call& call) {
  const bool y_is_nhwc = are_nhwc(y, y) || g.oh * g.ow == 1;
  const bool is_winograd = y_is_nhwc && goes_to_winograd(x, packed, g);
  const Weight weight(context, packed, sums, scales, bias, correction, steps_of(g),
                      is_winograd ? shifted(call) : call);
  if (is_winograd) return weight.winograd(context, x, y, g, call.input.zero_point);
  with_padded(context, x, g, call.input,
              [&](const void* from, const int32_t* offsets, const PaddedImages& padded) {
                for_output(y, [&]<class T>(T) {
                  T* const to = out<T>(y);
                  weight.products(context, from, offsets, g.n * g.oh * g.ow, to, y_is_nhwc, padded,
                                  [&](const RowResults<T>& r) { copy_to_images(r, false, g, to); });
                });
              });
}

void int8_conv2d_epilogue(const Context& context, const Tensor& x, const Tensor& packed,
                          const Tensor& sums, const Tensor& scales, const Tensor& bias,
                          const Tensor& correction, const Tensor& norm_weight,
                          const Tensor& norm_shift, const Tensor& mean, const Tensor& var,
                          const Tensor& residual, Tensor& y, Tensor& q, const ConvGeometry& g,
                          const Int8Call& call, const backend::Int8EpilogueParams& epilogue) {
  const bool is_winograd = goes_to_winograd(x, packed, g);
  Weight weight(context, packed, sums, scales, bias, correction, steps_of(g),
                is_winograd ? shifted(call) : call);
  const auto outputs = static_cast<size_t>(g.o);
  const Workspace factors = context.workspace(2 * outputs * sizeof(float));
  auto* const factor = factors.as<float>();
  float* const shift = factor + outputs;
  const float *const variances = in<float>(var), *const w = in<float>(norm_weight),
                     *const b = in<float>(norm_shift);
  for (size_t o = 0; variances && o < outputs; ++o) {  // as batch_norm has them
    const auto scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(variances[o]) + epilogue.eps));
    factor[o] = w ? scale * w[o] : scale;
    shift[o] = b ? b[o] : 0;
  }
  weight.set_epilogue({.mean = in<float>(mean),
                       .factor = factor,
                       .shift = shift,
                       .residual = in<float>(residual),
                       .min = epilogue.min,
                       .max = epilogue.max,
                       .q = out<uint8_t>(q)},
                      epilogue.next);
  if (is_winograd) return weight.winograd(context, x, y, g, call.input.zero_point);
  with_padded(context, x, g, call.input,
              [&](const void* from, const int32_t* offsets, const PaddedImages& padded) {
                weight.products(context, from, offsets, g.n * g.oh * g.ow, out<float>(y), true,
                                padded, [](const auto&...) {});
              });
}

const bool registered =
    backend::register_kernel("quantize", DeviceKind::cpu, DType::f32, &quantize) &&
    backend::register_kernel("dequantize", DeviceKind::cpu, DType::u8, &dequantize) &&
    backend::register_kernel("int8_pack", DeviceKind::cpu, DType::i8, &pack) &&
    backend::register_kernel("int8_linear", DeviceKind::cpu, DType::u8, &int8_linear) &&
    backend::register_kernel("int8_conv2d", DeviceKind::cpu, DType::u8, &int8_conv2d) &&
    backend::register_kernel("int8_conv2d_epilogue", DeviceKind::cpu, DType::u8,
                             &int8_conv2d_epilogue);

}  // namespace
}  // namespace brim::cpu
