// Tiles of pixels times panels of outputs. Images are padded beforehand, with what stands for zero,
// so that a pixel's window is where its corner is, whatever the pixel.
#include "rt/kernels/int8.h"

#define HWY_WANT_AVX3_DL 1  // AVX-512 with VNNI, beside the sets that all files are compiled for
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/int8_convolution.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "rt/kernels/int8_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

/// Images as the tiles read them.
struct Int8Images {
  const uint8_t* data;
  int64_t row, image;  ///< bytes
};

/// Pixels one after the other, and where their windows begin.
class Int8Corners {
 public:
  Int8Corners(const Int8Convolution& k, const Int8Images& x, int64_t pixel)
      : k_(k),
        x_(x),
        column_(pixel % k.ow),
        row_(pixel / k.ow % k.oh),
        image_(pixel / (k.ow * k.oh)) {}
  const uint8_t* next() {
    const uint8_t* const at = x_.data + image_ * x_.image + row_ * k_.a.stride_h * x_.row +
                              column_ * k_.a.stride_w * k_.c;
    if (++column_ == k_.ow) {
      column_ = 0;
      if (++row_ == k_.oh) {
        row_ = 0;
        ++image_;
      }
    }
    return at;
  }

 private:
  const Int8Convolution& k_;
  const Int8Images& x_;
  int64_t column_, row_, image_;
};

/// R pixels from `pixel` on and P panels from `panel` on.
template <int R, int P>
HWY_INLINE void int8_tile(const Int8Convolution& k, const Int8Images& x, Int8Corners& corners,
                          int64_t pixel, int64_t panel) {
  constexpr int kAll = P * kVectors;
  const TagI d;
  const uint8_t* from[R];
  for (int r = 0; r < R; ++r) from[r] = corners.next();
  const int64_t panel_bytes = k.panel_bytes(), steps = k.steps(), segments = k.segments();
  const int64_t row_taps = k.a.dilation_w == 1 ? 1 : k.a.kernel_w;
  const uint8_t* HWY_RESTRICT weights = k.weights + panel * panel_bytes;
  VecI sums[R][kAll];
  for (int p = 0; p < P; ++p)
    for (int v = 0; v < kVectors; ++v) {
      const auto* const all = reinterpret_cast<const int32_t*>(weights + p * panel_bytes);
      const VecI start = hn::Mul(hn::LoadU(d, all + v * kLanes), hn::Set(d, -k.zero_point));
      for (int r = 0; r < R; ++r) sums[r][p * kVectors + v] = start;
    }
  weights += kPanel * sizeof(int32_t);
  for (int64_t s = 0; s < segments; ++s) {
    int64_t at = s / row_taps * k.a.dilation_h * x.row + s % row_taps * k.a.dilation_w * k.c;
    for (int64_t j = 0; j < steps; ++j, at += 4, weights += 4 * kPanel) {
      if constexpr (kVectors == 1) {
        // Weights of all panels stay in registers while rows pass by.
        const auto weights_at = [&](int p)
                                    HWY_ATTR { return Int8Weights(weights + p * panel_bytes); };
        const Int8Weights w[4] = {weights_at(0), weights_at(P > 1 ? 1 : 0),
                                  weights_at(P > 2 ? 2 : 0), weights_at(P > 3 ? 3 : 0)};
        for (int r = 0; r < R; ++r) {
          const Int8Inputs in(from[r] + at);
          for (int p = 0; p < P; ++p) sums[r][p] = plus_products(sums[r][p], in, w[p]);
        }
      } else if constexpr (kVectors == 2) {
        const Int8Weights w[2] = {Int8Weights(weights), Int8Weights(weights + 4 * kLanes)};
        for (int r = 0; r < R; ++r) {
          const Int8Inputs in(from[r] + at);
          for (int v = 0; v < kVectors; ++v) sums[r][v] = plus_products(sums[r][v], in, w[v]);
        }
      } else {
        for (int v = 0; v < kVectors; ++v) {
          const Int8Weights w(weights + v * 4 * kLanes);
          for (int r = 0; r < R; ++r)
            sums[r][v] = plus_products(sums[r][v], Int8Inputs(from[r] + at), w);
        }
      }
    }
  }
  const Quantizer to_u8(k.inverse, k.next_zero_point);
  const float low = static_cast<float>(k.a.low), high = static_cast<float>(k.a.high);
  for (int v = 0; v < kAll; ++v) {
    const int64_t output = panel * kPanel + v * kLanes, count = k.o - output;
    if (count <= 0) break;
    const VecF scale = hn::LoadU(TagF(), k.scale + output);
    const VecF shift = hn::LoadU(TagF(), k.shift + output);
    const bool is_whole = count >= kLanes;
    for (int r = 0; r < R; ++r) {
      const int64_t to = (pixel + r) * k.o + output;
      VecF y = multiply_add(hn::ConvertTo(TagF(), sums[r][v]), scale, shift);
      if (k.residual)
        y = hn::Add(
            y, is_whole ? hn::LoadU(TagF(), k.residual + to) : load_part(k.residual + to, count));
      y = clip(y, low, high);
      if (k.y) is_whole ? hn::StoreU(y, TagF(), k.y + to) : store_part(y, count, k.y + to);
      if (k.q) is_whole ? to_u8.store(y, k.q + to) : to_u8.store_part(y, count, k.q + to);
    }
  }
}

/// P panels of pixels [begin, end), which count from `first` on in y.
template <int P>
void int8_panels(const Int8Convolution& k, const Int8Images& x, int64_t first, int64_t begin,
                 int64_t end, int64_t panel) {
  Int8Corners corners(k, x, begin);
  int64_t p = begin;
  for (; p + kInt8Rows <= end; p += kInt8Rows)
    int8_tile<kInt8Rows, P>(k, x, corners, first + p, panel);
  if constexpr (kInt8Rows > 3)
    for (; p + 3 <= end; p += 3) int8_tile<3, P>(k, x, corners, first + p, panel);
  if constexpr (kInt8Rows > 2)
    for (; p + 2 <= end; p += 2) int8_tile<2, P>(k, x, corners, first + p, panel);
  for (; p < end; ++p) int8_tile<1, P>(k, x, corners, first + p, panel);
}

void int8_products(const Int8Convolution& k, const Int8Images& x, int64_t first, int64_t begin,
                   int64_t end, int64_t panel, int64_t last) {
  for (; panel + kInt8Panels <= last; panel += kInt8Panels)
    int8_panels<kInt8Panels>(k, x, first, begin, end, panel);
  if constexpr (kInt8Panels > 2)
    for (; panel + 2 <= last; panel += 2) int8_panels<2>(k, x, first, begin, end, panel);
  for (; panel < last; ++panel) int8_panels<1>(k, x, first, begin, end, panel);
}

/// Rows [begin, end) of images from `first` on, with their padding.
void pad_rows(const Int8Convolution& k, int64_t first, int64_t begin, int64_t end, uint8_t* to) {
  const int64_t height = k.covered_h(), width = k.covered_w(), bytes = width * k.c;
  const auto fill = [&](uint8_t* at, int64_t columns) {
    std::memset(at, k.zero_point, static_cast<size_t>(columns * k.c));
  };
  const int64_t left = std::min(k.a.left, width), inner = std::clamp<int64_t>(k.w, 0, width - left);
  for (int64_t r = begin; r < end; ++r) {
    uint8_t* const at = to + r * bytes;
    const int64_t y = r % height - k.a.top;
    if (y < 0 || y >= k.h) {
      fill(at, width);
      continue;
    }
    fill(at, left);
    const uint8_t* const from = k.x + ((first + r / height) * k.h + y) * k.w * k.c;
    std::memcpy(at + left * k.c, from, static_cast<size_t>(inner * k.c));
    fill(at + (left + inner) * k.c, width - left - inner);
  }
}

void run_int8(const Int8Convolution& k, const Threads& threads, uint8_t* scratch) {
  constexpr int64_t kWork = int64_t{1} << 20;   // multiply-adds that are worth a thread
  constexpr int64_t kBytes = int64_t{1} << 16;  // that are copied
  const bool is_direct = k.is_direct();
  const int64_t each = k.images_at_once(), panels = panels_of(k.o), plane = k.oh * k.ow;
  const int64_t row = (is_direct ? k.w : k.covered_w()) * k.c;
  const int64_t image = row * (is_direct ? k.h : k.covered_h());
  const int64_t depth = 4 * k.segments() * k.steps();
  const auto grain_of = [](int64_t work) { return (kWork + work - 1) / work; };
  for (int64_t first = 0; first < k.n; first += each) {
    const int64_t images = std::min(each, k.n - first), pixels = images * plane;
    if (!is_direct) {
      parallel_parts(
          threads, images * k.covered_h(), (kBytes + row - 1) / row,
          [&](int64_t, int64_t begin, int64_t end) { pad_rows(k, first, begin, end, scratch); });
    }
    const Int8Images x{is_direct ? k.x + first * image : scratch, row, image};
    const int64_t tiles = (pixels + kInt8Rows - 1) / kInt8Rows;
    if (threads.count() > 1 && tiles < 2 * threads.count() && panels > 1)
      parallel_parts(threads, panels, grain_of(pixels * depth * kPanel),
                     [&](int64_t, int64_t begin, int64_t end) {
                       int8_products(k, x, first * plane, 0, pixels, begin, end);
                     });
    else
      parallel_parts(threads, tiles, grain_of(kInt8Rows * depth * k.o),
                     [&](int64_t, int64_t begin, int64_t end) {
                       int8_products(k, x, first * plane, begin * kInt8Rows,
                                     std::min(end * kInt8Rows, pixels), 0, panels);
                     });
  }
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_int8);

void convolve_int8(Isa isa, const Int8Convolution& conv, const Threads& threads, uint8_t* scratch) {
  auto* run = run_int8_table.of(isa);
#if HWY_TARGETS & HWY_AVX3_DL
  if (isa == Isa::avx512 && has_vnni()) run = HWY_CHOOSE_AVX3_DL(run_int8);
#endif
  run(conv, threads, scratch);
}

}  // namespace brim::rt
#endif
