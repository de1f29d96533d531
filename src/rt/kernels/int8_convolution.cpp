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

#include "rt/kernels/int8_results-inl.h"
#include "rt/kernels/int8_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

/// Images as the tiles read them.
struct Int8Images {
  const uint8_t* data;
  int64_t row, image;  ///< bytes
  int64_t odd = 0;     ///< from the even inputs to the odd ones, where they are split
};

/// Rows of a tile, for inputs that are split or not.
template <bool kSplit>
constexpr int kTileOf = kSplit ? 6 : kInt8Rows;

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

/// Of R pixels and P panels that are whole, without a way through memory.
template <int R, int P>
HWY_INLINE void int8_finish(const Int8Convolution& k, int64_t pixel, int64_t panel,
                            const VecI (&sums)[R][P * kVectors]) {
  const Int8Results results(k);
  const int64_t row = k.o, at = pixel * row + panel * kPanel;
  const float *const scales = k.scale + panel * kPanel, *const shifts = k.shift + panel * kPanel;
#pragma GCC unroll 4
  for (int v = 0; v < P * kVectors; ++v) {
    const VecF scale = hn::LoadU(TagF(), scales + v * kLanes);
    const VecF shift = hn::LoadU(TagF(), shifts + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) results.store(sums[r][v], scale, shift, at + r * row + v * kLanes);
  }
}

/// Of panels of which the last one is not whole.
void int8_finish_part(const Int8Convolution& k, int64_t pixel, int64_t panel, int rows, int panels,
                      const int32_t* sums) {
  const Int8Results results(k);
  for (int r = 0; r < rows; ++r)
    for (int64_t output = panel * kPanel, i = 0; i < panels * kPanel; i += kLanes) {
      const int64_t at = output + i, count = k.o - at;
      if (count <= 0) break;
      const VecI sum = hn::Load(TagI(), sums + r * panels * kPanel + i);
      const VecF scale = hn::LoadU(TagF(), k.scale + at), shift = hn::LoadU(TagF(), k.shift + at);
      const int64_t to = (pixel + r) * k.o + at;
      if (count >= kLanes)
        results.store(sum, scale, shift, to);
      else
        results.store_part(sum, scale, shift, to, count);
    }
}

/// R pixels from `pixel` on and P panels from `panel` on.
template <int R, int P, bool kSplit>
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
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && HWY_TARGET > HWY_AVX3_DL
      if constexpr (kSplit) {
        const auto weights_at = [&](int v) HWY_ATTR {
          const uint8_t* const from_v =
              weights + v / kVectors * panel_bytes + v % kVectors * 4 * kLanes;
          return hn::BitCast(TagI16(), hn::LoadU(d, reinterpret_cast<const int32_t*>(from_v)));
        };
        VecI16 w[kAll];
        for (int v = 0; v < kAll; ++v) w[v] = hn::ShiftRight<8>(hn::ShiftLeft<8>(weights_at(v)));
        for (int r = 0; r < R; ++r) {
          const VecI16 in = pairs_at(from[r] + at);
          for (int v = 0; v < kAll; ++v) sums[r][v] = plus_pairs(sums[r][v], in, w[v]);
        }
        for (int v = 0; v < kAll; ++v) w[v] = hn::ShiftRight<8>(weights_at(v));
        for (int r = 0; r < R; ++r) {
          const VecI16 in = pairs_at(from[r] + at + x.odd);
          for (int v = 0; v < kAll; ++v) sums[r][v] = plus_pairs(sums[r][v], in, w[v]);
        }
        continue;
      }
#endif
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
  if (k.o - panel * kPanel >= P * kPanel) return int8_finish<R, P>(k, pixel, panel, sums);
  HWY_ALIGN int32_t all[R * P * kPanel];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kAll; ++v) hn::Store(sums[r][v], d, all + (r * kAll + v) * kLanes);
  int8_finish_part(k, pixel, panel, R, P, all);
}

/// P panels of pixels [begin, end), which count from `first` on in y.
template <int P, bool kSplit>
void int8_panels(const Int8Convolution& k, const Int8Images& x, int64_t first, int64_t begin,
                 int64_t end, int64_t panel) {
  constexpr int kRows = kTileOf<kSplit>;
  Int8Corners corners(k, x, begin);
  int64_t p = begin;
  for (; p + kRows <= end; p += kRows) int8_tile<kRows, P, kSplit>(k, x, corners, first + p, panel);
  if constexpr (kRows > 3)
    for (; p + 3 <= end; p += 3) int8_tile<3, P, kSplit>(k, x, corners, first + p, panel);
  if constexpr (kRows > 2)
    for (; p + 2 <= end; p += 2) int8_tile<2, P, kSplit>(k, x, corners, first + p, panel);
  for (; p < end; ++p) int8_tile<1, P, kSplit>(k, x, corners, first + p, panel);
}

template <bool kSplit>
void int8_products(const Int8Convolution& k, const Int8Images& x, int64_t first, int64_t begin,
                   int64_t end, int64_t panel, int64_t last) {
  for (; panel + kInt8Panels <= last; panel += kInt8Panels)
    int8_panels<kInt8Panels, kSplit>(k, x, first, begin, end, panel);
  if constexpr (kInt8Panels > 2)
    for (; panel + 2 <= last; panel += 2) int8_panels<2, kSplit>(k, x, first, begin, end, panel);
  for (; panel < last; ++panel) int8_panels<1, kSplit>(k, x, first, begin, end, panel);
}

/// Bytes; or, split, even inputs here and odd ones `odd` bytes behind, each in 16 bits.
template <bool kSplit>
HWY_INLINE void copy_inputs(const uint8_t* from, int64_t count, uint8_t* to, int64_t odd) {
  if constexpr (!kSplit) {
    std::memcpy(to, from, static_cast<size_t>(count));
  } else {
    const hn::Rebind<uint32_t, TagI> d;
    const auto mask = hn::Set(d, 0x00FF00FF);
    int64_t i = 0;
    for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
      const auto all = hn::LoadU(d, reinterpret_cast<const uint32_t*>(from + i));
      hn::StoreU(hn::And(all, mask), d, reinterpret_cast<uint32_t*>(to + i));
      hn::StoreU(hn::And(hn::ShiftRight<8>(all), mask), d,
                 reinterpret_cast<uint32_t*>(to + odd + i));
    }
    for (; i < count; i += 4) {
      const uint8_t parts[2][4] = {{from[i], 0, from[i + 2], 0}, {from[i + 1], 0, from[i + 3], 0}};
      std::memcpy(to + i, parts[0], 4);
      std::memcpy(to + odd + i, parts[1], 4);
    }
  }
}

template <bool kSplit>
void fill_inputs(uint8_t value, int64_t count, uint8_t* to, int64_t odd) {
  if constexpr (!kSplit) {
    std::memset(to, value, static_cast<size_t>(count));
  } else {
    const uint8_t part[4] = {value, 0, value, 0};
    for (int64_t i = 0; i < count; i += 4) {
      std::memcpy(to + i, part, 4);
      std::memcpy(to + odd + i, part, 4);
    }
  }
}

/// Rows [begin, end) of images from `first` on, with their padding.
template <bool kSplit>
void pad_rows(const Int8Convolution& k, int64_t first, int64_t begin, int64_t end, uint8_t* to,
              int64_t odd) {
  const int64_t height = k.covered_h(), width = k.covered_w(), bytes = width * k.c;
  const auto fill = [&](uint8_t* at, int64_t columns) {
    fill_inputs<kSplit>(static_cast<uint8_t>(k.zero_point), columns * k.c, at, odd);
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
    copy_inputs<kSplit>(from, inner * k.c, at + left * k.c, odd);
    fill(at + (left + inner) * k.c, width - left - inner);
  }
}

template <bool kSplit>
void run_images(const Int8Convolution& k, const Threads& threads, uint8_t* scratch) {
  constexpr int64_t kWork = int64_t{1} << 20;   // multiply-adds that are worth a thread
  constexpr int64_t kBytes = int64_t{1} << 16;  // that are copied
  constexpr int64_t kRows = kTileOf<kSplit>;
  const bool is_copied = kSplit || !k.is_direct();
  const int64_t each = k.images_at_once(), panels = panels_of(k.o), plane = k.oh * k.ow;
  const int64_t row = (is_copied ? k.covered_w() : k.w) * k.c;
  const int64_t image = row * (is_copied ? k.covered_h() : k.h);
  const int64_t depth = 4 * k.segments() * k.steps(), odd = kSplit ? k.copied_bytes() : 0;
  const auto grain_of = [](int64_t work) { return (kWork + work - 1) / work; };
  for (int64_t first = 0; first < k.n; first += each) {
    const int64_t images = std::min(each, k.n - first), pixels = images * plane;
    if (is_copied)
      parallel_parts(threads, images * k.covered_h(), (kBytes + row - 1) / row,
                     [&](int64_t, int64_t begin, int64_t end) {
                       pad_rows<kSplit>(k, first, begin, end, scratch, odd);
                     });
    const Int8Images x{is_copied ? scratch : k.x + first * image, row, image, odd};
    const int64_t tiles = (pixels + kRows - 1) / kRows;
    if (threads.count() > 1 && tiles < 2 * threads.count() && panels > 1)
      parallel_parts(threads, panels, grain_of(pixels * depth * kPanel),
                     [&](int64_t, int64_t begin, int64_t end) {
                       int8_products<kSplit>(k, x, first * plane, 0, pixels, begin, end);
                     });
    else
      parallel_parts(threads, tiles, grain_of(kRows * depth * k.o),
                     [&](int64_t, int64_t begin, int64_t end) {
                       int8_products<kSplit>(k, x, first * plane, begin * kRows,
                                             std::min(end * kRows, pixels), 0, panels);
                     });
  }
}

void run_int8(const Int8Convolution& k, const Threads& threads, uint8_t* scratch) {
  if (!kSplits || !k.has_whole_steps()) return run_images<false>(k, threads, scratch);
  if (!k.is_product()) return run_images<kSplits>(k, threads, scratch);
  // As many pixels at a time as stay in the cache when they are split.
  const int64_t pixels = k.n * k.oh * k.ow, each = k.pixels_at_once();
  for (int64_t p = 0; p < pixels; p += each) {
    Int8Convolution part = k;
    part.n = part.h = part.oh = 1;
    part.w = part.ow = std::min(each, pixels - p);
    part.x += p * k.c;
    const int64_t to = p * k.o;
    if (part.residual) part.residual += to;
    if (part.y) part.y += to;
    if (part.q) part.q += to;
    run_images<kSplits>(part, threads, scratch);
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
