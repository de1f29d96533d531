// Tiles of pixels times panels of outputs. Images are padded beforehand, with what stands for zero,
// so that a pixel's window is where its corner is, whatever the pixel.
#include "rt/kernels/int8.h"

#define HWY_WANT_AVX3_DL 1  // AVX-512 with VNNI, beside the sets that all files are compiled for
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/int8_convolution.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "rt/kernels/int8_images-inl.h"
#include "rt/kernels/int8_results-inl.h"
#include "rt/kernels/int8_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

/// Pixels one after the other, and where their windows begin.
class Int8Corners {
 public:
  Int8Corners(const Int8Convolution& k, const Int8Images& x, int64_t pixel)
      : x_(x),
        columns_(k.ow),
        rows_(k.oh),
        step_(k.a.stride_w * k.c * x.input),
        row_step_(k.a.stride_h * x.row),
        column_(pixel % k.ow),
        row_(pixel / k.ow % k.oh),
        image_(pixel / (k.ow * k.oh)) {
    start_row();
    at_ += column_ * step_;
  }
  const uint8_t* next() {
    const uint8_t* const at = at_;
    at_ += step_;
    if (++column_ == columns_) next_row();
    return at;
  }

 private:
  void next_row() {
    column_ = 0;
    if (++row_ == rows_) {
      row_ = 0;
      ++image_;
    }
    start_row();
  }
  void start_row() { at_ = x_.data + image_ * x_.image + row_ * row_step_; }

  const Int8Images& x_;
  const int64_t columns_, rows_, step_, row_step_;
  int64_t column_, row_, image_;
  const uint8_t* at_ = nullptr;
};

/// What tiles of V vectors of outputs share. Bytes may alias anything: nothing of it is read anew
/// behind stores.
template <int V>
struct Int8Panels {
  const int64_t panel_bytes, steps, lines, taps;
  const int64_t line_step, tap_step, step, odd;  ///< bytes of x
  const int64_t outputs, row;                    ///< from the first one on; of a pixel
  const uint8_t* const weights;
  const float *const scale, *const shift;
  const Int8Results results;
  VecI start[V];

  HWY_INLINE Int8Panels(const Int8Convolution& k, const Int8Images& x, int64_t panel)
      : panel_bytes(k.panel_bytes()),
        steps(k.steps()),
        lines(k.a.kernel_h),
        taps(k.a.dilation_w == 1 ? 1 : k.a.kernel_w),
        line_step(k.a.dilation_h * x.row),
        tap_step(k.a.dilation_w * k.c * x.input),
        step(4 * x.input),
        odd(x.odd),
        outputs(k.o - panel * kPanel),
        row(k.o),
        weights(k.weights + panel * panel_bytes),
        scale(k.scale + panel * kPanel),
        shift(k.shift + panel * kPanel),
        results(k) {
    const TagI d;
    for (int v = 0; v < V; ++v) {
      const auto* const all =
          reinterpret_cast<const int32_t*>(weights + v / kVectors * panel_bytes);
      start[v] =
          hn::Mul(hn::LoadU(d, all + v % kVectors * kLanes), hn::Set(d, kInt8Shift - k.zero_point));
    }
  }
};

/// Of R pixels and V vectors of outputs that are whole, without a way through memory.
template <int R, int V>
HWY_INLINE void int8_finish(const Int8Convolution& k, const Int8Panels<V>& p, int64_t at,
                            const VecI (&sums)[R][V]) {
  // Where registers are few, what is wanted is looked at once for a tile. Elsewhere compilers would
  // make all tiles anew for each of it, which takes much code and is no faster.
  constexpr bool kIsKept = kSplits && kVectors == 2;
  constexpr bool kChooses = kIsKept && R == kInt8Rows;
  const Int8Results results = kIsKept ? p.results : Int8Results(k);
  const bool is_f32 = kChooses && results.is_f32(), is_u8 = kChooses && results.is_u8();
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const VecF scale = hn::LoadU(TagF(), p.scale + v * kLanes);
    const VecF shift = hn::LoadU(TagF(), p.shift + v * kLanes);
    const int64_t to = at + v * kLanes;
    if (is_f32) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) results.store_f32(sums[r][v], scale, shift, to + r * p.row);
    } else if (is_u8) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) results.store_u8(sums[r][v], scale, shift, to + r * p.row);
    } else {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) results.store(sums[r][v], scale, shift, to + r * p.row);
    }
  }
}

/// Of vectors of which the last ones are not whole.
void int8_finish_part(const Int8Convolution& k, int64_t pixel, int64_t panel, int rows, int vectors,
                      const int32_t* sums) {
  const Int8Results results(k);
  for (int r = 0; r < rows; ++r)
    for (int64_t output = panel * kPanel, i = 0; i < vectors * kLanes; i += kLanes) {
      const int64_t at = output + i, count = k.o - at;
      if (count <= 0) break;
      const VecI sum = hn::Load(TagI(), sums + r * vectors * kLanes + i);
      const VecF scale = hn::LoadU(TagF(), k.scale + at), shift = hn::LoadU(TagF(), k.shift + at);
      const int64_t to = (pixel + r) * k.o + at;
      if (count >= kLanes)
        results.store(sum, scale, shift, to);
      else
        results.store_part(sum, scale, shift, to, count);
    }
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !BRIM_RT_ADDS_FOUR_BYTES
/// sums += the products of a step's four inputs, at from[r] + at, and weights.
template <int R, int V>
HWY_INLINE void add_step(const uint8_t* const (&from)[R], int64_t at, int64_t odd,
                         const uint8_t* weights, int64_t panel_bytes, VecI (&sums)[R][V]) {
  const auto weights_at = [&](int v) HWY_ATTR {
    const uint8_t* const from_v = weights + v / kVectors * panel_bytes + v % kVectors * 4 * kLanes;
    return hn::BitCast(TagI16(), hn::LoadU(TagI(), reinterpret_cast<const int32_t*>(from_v)));
  };
  VecI16 w[V];
  for (int v = 0; v < V; ++v) w[v] = hn::ShiftRight<8>(hn::ShiftLeft<8>(weights_at(v)));
  for (int r = 0; r < R; ++r) {
    const VecI16 in = pairs_at(from[r] + at);
    for (int v = 0; v < V; ++v) sums[r][v] = plus_pairs(sums[r][v], in, w[v]);
  }
  for (int v = 0; v < V; ++v) w[v] = hn::ShiftRight<8>(weights_at(v));
  for (int r = 0; r < R; ++r) {
    const VecI16 in = pairs_at(from[r] + at + odd);
    for (int v = 0; v < V; ++v) sums[r][v] = plus_pairs(sums[r][v], in, w[v]);
  }
}
#else
template <int R, int V>
HWY_INLINE void add_step(const uint8_t* const (&from)[R], int64_t at, int64_t,
                         const uint8_t* weights, int64_t panel_bytes, VecI (&sums)[R][V]) {
  if constexpr (kVectors == 1 || BRIM_RT_DOTS_BYTES) {
    // Weights of all vectors stay in registers while rows pass by.
    const auto weights_at = [&](int v) HWY_ATTR {
      return Int8Weights(weights + v / kVectors * panel_bytes + v % kVectors * 4 * kLanes);
    };
    const Int8Weights w[4] = {weights_at(0), weights_at(V > 1 ? 1 : 0), weights_at(V > 2 ? 2 : 0),
                              weights_at(V > 3 ? 3 : 0)};
    for (int r = 0; r < R; ++r) {
      const Int8Inputs in(from[r] + at);
      for (int v = 0; v < V; ++v) sums[r][v] = plus_products(sums[r][v], in, w[v]);
    }
  } else {
    for (int v = 0; v < V; ++v) {
      const Int8Weights w(weights + v / kVectors * panel_bytes + v % kVectors * 4 * kLanes);
      for (int r = 0; r < R; ++r)
        sums[r][v] = plus_products(sums[r][v], Int8Inputs(from[r] + at), w);
    }
  }
}
#endif

/// Whether the results of R pixels may be stored as whole vectors: what is written behind their
/// outputs belongs to pixels before `end`, which are computed later.
template <int R, int V>
bool fit_vectors(const Int8Panels<V>& p, const float* residual, int64_t pixel, int64_t end) {
  if (p.outputs >= V * kLanes) return true;
  return V == 1 && p.row < kLanes && !residual && (pixel + R - 1) * p.row + kLanes <= end * p.row;
}

/// R pixels from `pixel` on and V vectors of outputs of panels from `panel` on; those up to `end`
/// follow.
template <int R, int V>
HWY_INLINE void int8_tile(const Int8Convolution& k, const Int8Panels<V>& p, Int8Corners& corners,
                          int64_t pixel, int64_t panel, int64_t end) {
  const uint8_t* from[R];
  for (int r = 0; r < R; ++r) from[r] = corners.next();
  VecI sums[R][V];
  for (int v = 0; v < V; ++v)
    for (int r = 0; r < R; ++r) sums[r][v] = p.start[v];
  const uint8_t* HWY_RESTRICT weights = p.weights + kPanel * sizeof(int32_t);
  for (int64_t y = 0; y < p.lines; ++y)
    for (int64_t t = 0; t < p.taps; ++t) {
      int64_t at = y * p.line_step + t * p.tap_step;
      for (int64_t j = 0; j < p.steps; ++j, at += p.step, weights += 4 * kPanel)
        add_step<R, V>(from, at, p.odd, weights, p.panel_bytes, sums);
    }
  if (fit_vectors<R>(p, k.residual, pixel, end))
    return int8_finish(k, p, pixel * p.row + panel * kPanel, sums);
  HWY_ALIGN int32_t all[R * V * kLanes];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) hn::Store(sums[r][v], TagI(), all + (r * V + v) * kLanes);
  int8_finish_part(k, pixel, panel, R, V, all);
}

/// V vectors of outputs of pixels [begin, end), which count from `first` on in y.
template <int V>
void int8_outputs(const Int8Convolution& k, const Int8Images& x, int64_t first, int64_t begin,
                  int64_t end, int64_t panel) {
  const Int8Panels<V> all(k, x, panel);
  Int8Corners corners(k, x, begin);
  int64_t p = begin;
  for (; p + kInt8Rows <= end; p += kInt8Rows)
    int8_tile<kInt8Rows>(k, all, corners, first + p, panel, first + end);
  if constexpr (kInt8Rows > 3)
    for (; p + 3 <= end; p += 3) int8_tile<3>(k, all, corners, first + p, panel, first + end);
  if constexpr (kInt8Rows > 2)
    for (; p + 2 <= end; p += 2) int8_tile<2>(k, all, corners, first + p, panel, first + end);
  if constexpr (kInt8Rows > 1)
    for (; p < end; ++p) int8_tile<1>(k, all, corners, first + p, panel, first + end);
}

void int8_products(const Int8Convolution& k, const Int8Images& x, int64_t first, int64_t begin,
                   int64_t end, int64_t panel, int64_t last) {
  for (; panel + kInt8Panels <= last; panel += kInt8Panels) {
    // Few outputs leave half of a panel empty.
    if (kVectors == 2 && k.o - panel * kPanel <= kLanes)
      int8_outputs<1>(k, x, first, begin, end, panel);
    else
      int8_outputs<kInt8Panels * kVectors>(k, x, first, begin, end, panel);
  }
  if constexpr (kInt8Panels > 2)
    for (; panel + 2 <= last; panel += 2)
      int8_outputs<2 * kVectors>(k, x, first, begin, end, panel);
  if constexpr (kInt8Panels > 1)
    for (; panel < last; ++panel) int8_outputs<kVectors>(k, x, first, begin, end, panel);
}

void run_images(const Int8Convolution& k, const Threads& threads, uint8_t* scratch) {
  constexpr int64_t kWork = int64_t{1} << 20;   // multiply-adds that are worth a thread
  constexpr int64_t kFetched = 16;              // of a weight, in the time that memory gives it
  constexpr int64_t kBytes = int64_t{1} << 16;  // that are copied
  const bool is_copied = kSplits || !k.is_direct(), is_spread = kSplits && !k.has_whole_steps();
  const int64_t each = k.images_at_once(), panels = panels_of(k.o), plane = k.oh * k.ow;
  const int64_t input = is_spread ? 4 : 1;
  const int64_t row = (is_copied ? k.covered_w() : k.w) * k.c * input;
  const int64_t image = row * (is_copied ? k.covered_h() : k.h);
  const int64_t odd = is_spread ? input : kSplits ? k.copied_bytes() : 0;
  const int64_t depth = 4 * k.segments() * k.steps();
  const auto grain_of = [](int64_t work) { return (kWork + work - 1) / work; };
  for (int64_t first = 0; first < k.n; first += each) {
    const int64_t images = std::min(each, k.n - first), pixels = images * plane;
    const Int8Images x{is_copied ? scratch : k.x + first * image, input, row, image, odd};
    if (is_copied)
      parallel_parts(
          threads, images * k.covered_h(), (kBytes + row - 1) / row,
          [&](int64_t, int64_t begin, int64_t end) { pad_rows(k, first, begin, end, scratch, x); });
    // The last step may reach beyond, to weights that are zeros in files of brim alone.
    if (is_copied && !k.has_whole_steps())
      std::memset(scratch + images * image, 0, Int8Convolution::kSlack);
    const int64_t tiles = (pixels + kInt8Rows - 1) / kInt8Rows;
    // Where there is more of weights than of inputs threads read some of the weights each.
    const bool has_few_inputs =
        panels >= 2 * threads.count() * kInt8Panels && images * image < panels * k.panel_bytes();
    const int64_t group = has_few_inputs ? kInt8Panels : 1;
    if (threads.count() > 1 && panels > 1 && (has_few_inputs || tiles < 2 * threads.count()))
      parallel_parts(threads, (panels + group - 1) / group,
                     grain_of(std::max(pixels, kFetched) * depth * kPanel * group),
                     [&](int64_t, int64_t begin, int64_t end) {
                       int8_products(k, x, first * plane, 0, pixels, begin * group,
                                     std::min(end * group, panels));
                     });
    else
      parallel_parts(threads, tiles, grain_of(kInt8Rows * depth * k.o),
                     [&](int64_t, int64_t begin, int64_t end) {
                       int8_products(k, x, first * plane, begin * kInt8Rows,
                                     std::min(end * kInt8Rows, pixels), 0, panels);
                     });
  }
}

void run_int8(const Int8Convolution& k, const Threads& threads, uint8_t* scratch) {
  if (!k.is_product() || (!kSplits && k.is_direct())) return run_images(k, threads, scratch);
  // As many pixels at a time as stay in the cache when they are copied.
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
    run_images(part, threads, scratch);
  }
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_int8);

void convolve_int8(Isa isa, const Int8Convolution& conv, const Threads& threads, uint8_t* scratch) {
  run_int8_table.of(isa)(conv, threads, scratch);
}

}  // namespace brim::rt
#endif
