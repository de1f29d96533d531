// Layers whose weights have kept columns only (see brim/ops/sparse.h).
#include <algorithm>

#include "backend/cpu/conv/image_formats.h"
#include "backend/cpu/runtime/elements.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"
#include "backend/cpu/sparse/sparse_rows.h"
#include "backend/kernel.h"
#include "backend/options/geometry.h"
#include "core/check.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;

constexpr int64_t kBlock = 48;  // rows that share what a cache holds of x; a multiple of all tiles'
constexpr int64_t kGrain = int64_t{1} << 18;  // multiply-adds worth a thread

/// The weight's operands.
struct Weight {
  const float* values;
  const int32_t* columns;
  const int32_t* starts;
  int64_t groups, vector, kept;

  Weight(const Tensor& v, const Tensor& c, const Tensor& s)
      : values(in<float>(v)),
        columns(in<int32_t>(c)),
        starts(in<int32_t>(s)),
        groups(s.numel() - 1),
        vector(v.shape()[1]),
        kept(v.shape()[0]) {}

  /// Numbers may come from anywhere, and are places in memory.
  void check(int64_t width) const {
    bool is_right = starts[0] == 0 && starts[groups] == kept;
    for (int64_t g = 0; g < groups; ++g) is_right &= starts[g] <= starts[g + 1];
    for (int64_t j = 0; j < kept; ++j) is_right &= columns[j] >= 0 && columns[j] < width;
    BRIM_CHECK(is_right, ValueError,
               "[sparse] starts or columns lie outside of a weight of {} columns", width);
  }
  SparseGroup group(int64_t g, const int32_t* offsets) const {
    return {values + starts[g] * vector, offsets + starts[g], starts[g + 1] - starts[g]};
  }
};

/// Calls body(first row, rows, y of a block) for blocks of rows and all groups, in parallel; body
/// says where rows lie (elements from x) and takes the results of a group.
template <class RowAt, class Take>
void for_blocks(const Context& context, const Weight& weight, const int32_t* offsets,
                const float* x, const float* bias, int64_t outputs, int64_t rows,
                const RowAt& row_at, const Take& take) {
  const int64_t blocks = (rows + kBlock - 1) / kBlock, units = blocks * weight.groups;
  const int64_t work =
      std::min(rows, kBlock) * weight.kept * weight.vector / std::max<int64_t>(weight.groups, 1);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1));
  const auto y_size = static_cast<size_t>(kBlock * weight.vector);
  const size_t bytes = (y_size + static_cast<size_t>(weight.vector)) * sizeof(float) +
                       static_cast<size_t>(kBlock) * sizeof(int64_t);
  const PartScratch scratch(context, units, grain, bytes);
  parallel_for(units, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    auto* const at = slot.as<int64_t>();
    auto* const y = reinterpret_cast<float*>(at + kBlock);
    float* const group_bias = y + y_size;
    int64_t known = -1;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t block = u / weight.groups, g = u % weight.groups;
      const int64_t first = block * kBlock, count = std::min(kBlock, rows - first);
      if (block != known)
        for (int64_t r = 0; r < count; ++r) at[r] = row_at(first + r);
      known = block;
      const int64_t output = g * weight.vector;
      const int64_t used = std::min(weight.vector, outputs - output);
      for (int64_t o = 0; o < weight.vector; ++o)
        group_bias[o] = bias && o < used ? bias[output + o] : 0;
      sparse_rows({x, at, count, weight.vector, group_bias}, weight.group(g, offsets), y,
                  weight.vector);
      take(first, count, output, used, y);
    }
  });
}

/// Rows of `used` outputs each, into rows of y that are `outputs` long.
void copy_rows(const float* from, int64_t step, int64_t count, int64_t used, float* to,
               int64_t outputs) {
  for (int64_t r = 0; r < count; ++r) std::copy_n(from + r * step, used, to + r * outputs);
}

void sparse_linear(const Context& context, const Tensor& x, const Tensor& values,
                   const Tensor& columns, const Tensor& starts, const Tensor& bias, Tensor& y) {
  const Weight weight(values, columns, starts);
  const int64_t rows = y.shape()[0], outputs = y.shape()[1], width = x.shape()[1];
  weight.check(width);
  float* const to = out<float>(y);
  for_blocks(
      context, weight, weight.columns, in<float>(x), in<float>(bias), outputs, rows,
      [&](int64_t row) { return row * width; },
      [&](int64_t first, int64_t count, int64_t output, int64_t used, const float* from) {
        copy_rows(from, weight.vector, count, used, to + first * outputs + output, outputs);
      });
}

/// Images with their padding, channels last.
struct Padded {
  const ConvGeometry& g;
  int64_t height() const { return g.h + 2 * g.padding.h; }
  int64_t width() const { return g.w + 2 * g.padding.w; }
  int64_t size() const { return height() * width() * g.c; }

  void fill(const float* image, bool is_nhwc, float* to) const {
    std::fill_n(to, size(), 0.0F);
    for (int64_t y = 0; y < g.h; ++y) {
      float* row = to + ((y + g.padding.h) * width() + g.padding.w) * g.c;
      if (is_nhwc) {
        std::copy_n(image + y * g.w * g.c, g.w * g.c, row);
        continue;
      }
      for (int64_t c = 0; c < g.c; ++c)
        for (int64_t x = 0; x < g.w; ++x) row[x * g.c + c] = image[(c * g.h + y) * g.w + x];
    }
  }
};

void sparse_conv2d(const Context& context, const Tensor& x, const Tensor& values,
                   const Tensor& columns, const Tensor& starts, const Tensor& bias, Tensor& y,
                   const ConvGeometry& g) {
  const Weight weight(values, columns, starts);
  weight.check(g.c * g.kh * g.kw);
  const Padded padded{g};
  const bool is_nhwc = are_nhwc(x, x), y_is_nhwc = are_nhwc(y, y) || g.oh * g.ow == 1;
  const bool as_it_is = (is_nhwc || g.h * g.w == 1) && g.padding == 0;
  const Workspace images =
      context.workspace(as_it_is ? 0 : static_cast<size_t>(g.n * padded.size()) * sizeof(float));
  const float* from = in<float>(x);
  if (!as_it_is) {
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(padded.size(), 1));
    parallel_for(g.n, grain, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        padded.fill(in<float>(x) + n * g.c * g.h * g.w, is_nhwc,
                    images.as<float>() + n * padded.size());
    });
    from = images.as<float>();
  }

  const int64_t area = g.kh * g.kw, row = padded.width() * g.c;
  const Workspace table = context.workspace(
      static_cast<size_t>(g.c * area + std::max<int64_t>(weight.kept, 1)) * sizeof(int32_t));
  int32_t* const offset_of = table.as<int32_t>();
  int32_t* const offsets = offset_of + g.c * area;
  for (int64_t c = 0; c < g.c; ++c)
    for (int64_t k = 0; k < area; ++k)
      offset_of[c * area + k] =
          static_cast<int32_t>(k / g.kw * g.dilation.h * row + k % g.kw * g.dilation.w * g.c + c);
  for (int64_t j = 0; j < weight.kept; ++j) offsets[j] = offset_of[weight.columns[j]];

  const int64_t pixels = g.oh * g.ow;
  float* const to = out<float>(y);
  for_blocks(
      context, weight, offsets, from, in<float>(bias), g.o, g.n * pixels,
      [&](int64_t r) {
        const int64_t n = r / pixels, at = r % pixels;
        return n * padded.size() + at / g.ow * g.stride.h * row + at % g.ow * g.stride.w * g.c;
      },
      [&](int64_t first, int64_t count, int64_t output, int64_t used, const float* block) {
        if (y_is_nhwc)
          return copy_rows(block, weight.vector, count, used, to + first * g.o + output, g.o);
        for (int64_t r = 0; r < count; ++r) {
          const int64_t n = (first + r) / pixels, at = (first + r) % pixels;
          float* const channel = to + (n * g.o + output) * pixels + at;
          for (int64_t o = 0; o < used; ++o) channel[o * pixels] = block[r * weight.vector + o];
        }
      });
}

const bool registered =
    backend::register_kernel("sparse_linear", DeviceKind::cpu, DType::f32, &sparse_linear) &&
    backend::register_kernel("sparse_conv2d", DeviceKind::cpu, DType::f32, &sparse_conv2d);

}  // namespace
}  // namespace brim::cpu
