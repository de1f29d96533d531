// The loops of batch_norm over 16-bit floats: runs in registers where the CPU converts there, else
// and for pixels a block after the other, which is widened in the L1 cache, computed as f32 and
// rounded to nearest even. Include it inside a foreach_target file only.
#if defined(BRIM_BATCH_NORM_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BATCH_NORM_NARROW_INL_H_
#undef BRIM_BATCH_NORM_NARROW_INL_H_
#else
#define BRIM_BATCH_NORM_NARROW_INL_H_
#endif

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/reduce/narrow_runs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

template <class W>
concept Narrow = sizeof(W) == 2;

/// f32 copies of up to kSize numbers. Of null they are null.
template <int64_t kSize>
struct WideBlock {
  HWY_ALIGN float numbers[kSize];

  template <class W>
  const float* read(const W* from, int64_t n) {
    if (!from) return nullptr;
    convert_run(from, numbers, n);
    return numbers;
  }
  /// n columns of `rows` rows, `stride` apart, as a dense matrix.
  template <class W>
  const float* read_rows(const W* from, int64_t rows, int64_t n, int64_t stride) {
    if (!from || n == stride) return read(from, rows * n);
    for (int64_t r = 0; r < rows; ++r) convert_run(from + r * stride, numbers + r * n, n);
    return numbers;
  }
  template <class W>
  void write_rows(W* to, int64_t rows, int64_t n, int64_t stride) const {
    if (n == stride) return convert_run(numbers, to, rows * n);
    for (int64_t r = 0; r < rows; ++r) convert_run(numbers + r * n, to + r * stride, n);
  }
};

template <Narrow W>
const W* advance(const W* p, int64_t n) {
  return p ? p + n : nullptr;
}

template <Narrow W>
void channel_moments(const W* x, int64_t n, Moments& m) {
  if constexpr (kInRegisters<W>) return run_moments(x, n, m);
  WideBlock<kRun> wide;
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t count = std::min(kRun, n - at);
    run_moments(wide.read(x + at, count), count, m);
  }
}
template <class T>
void channel_moments(const T* x, int64_t n, Moments& m) {
  run_moments(x, n, m);
}

template <Narrow W>
void normalise_run(const W* x, int64_t n, const Affine<float>& f, const W* add, bool relu, W* y) {
  if constexpr (kInRegisters<W>)
    return add ? (relu ? normalise_in_registers<true, true>(x, n, f, add, y)
                       : normalise_in_registers<true, false>(x, n, f, add, y))
               : (relu ? normalise_in_registers<false, true>(x, n, f, add, y)
                       : normalise_in_registers<false, false>(x, n, f, add, y));
  WideBlock<kRun> wide, wide_add;
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t count = std::min(kRun, n - at);
    const float* const from = wide.read(x + at, count);
    normalise_run(from, count, f, wide_add.read(advance(add, at), count), relu, wide.numbers);
    convert_run(wide.numbers, y + at, count);
  }
}

template <Narrow W>
void run_sums(Mask mask, const W* dy, const W* x, const W* y, int64_t n, const Affine<float>& f,
              W* kept, double& sum, double& dot) {
  if constexpr (kInRegisters<W>)
    return with_mask(mask, [&](auto constant) {
      constexpr Mask kMask = decltype(constant)::value;
      kept ? sums_in_registers<kMask, true>(dy, x, y, n, f, kept, sum, dot)
           : sums_in_registers<kMask, false>(dy, x, y, n, f, kept, sum, dot);
    });
  WideBlock<kRun> wide_dy, wide_x, wide_y, wide_kept;
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t count = std::min(kRun, n - at);
    run_sums(mask, wide_dy.read(dy + at, count), wide_x.read(x + at, count),
             wide_y.read(advance(y, at), count), count, f, kept ? wide_kept.numbers : nullptr, sum,
             dot);
    if (kept) convert_run(wide_kept.numbers, kept + at, count);
  }
}

template <Narrow W>
void run_gradient(Mask mask, const W* dy, const W* x, const W* y, int64_t n, const Affine<float>& f,
                  const Slope<float>& s, W* dx) {
  if constexpr (kInRegisters<W>)
    return with_mask(mask, [&](auto constant) {
      gradient_in_registers<decltype(constant)::value>(dy, x, y, n, f, s, dx);
    });
  WideBlock<kRun> wide_dy, wide_x, wide_y, wide_dx;
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t count = std::min(kRun, n - at);
    run_gradient(mask, wide_dy.read(dy + at, count), wide_x.read(x + at, count),
                 wide_y.read(advance(y, at), count), count, f, s, wide_dx.numbers);
    convert_run(wide_dx.numbers, dx + at, count);
  }
}

/// Calls body(offset, first channel, channels, pixels) for blocks of pixels and channels.
template <class Body>
void each_block(int64_t channels, int64_t begin, int64_t end, const Body& body) {
  for (int64_t first = begin; first < end; first += kPixels)
    for (int64_t c = 0; c < channels; c += kChannels)
      body(first * channels + c, c, std::min(kChannels, channels - c),
           std::min(kPixels, end - first));
}

/// The maps of the channels from c on.
inline Columns<float> from_channel(Columns<float> f, int64_t c) {
  f.mean += c;
  f.a += c;
  f.shift += c;
  return f;
}
inline SlopeColumns<float> from_channel(SlopeColumns<float> s, int64_t c) {
  s.mean += c;
  s.a += c;
  s.slope += c;
  s.shift += c;
  return s;
}

using WidePixels = WideBlock<kPixels * kChannels>;

template <Narrow W>
void normalise_pixels(const W* x, int64_t channels, int64_t begin, int64_t end,
                      const Columns<float>& f, const W* add, bool relu, W* y) {
  WidePixels wide, wide_add;
  each_block(channels, begin, end, [&](int64_t at, int64_t c, int64_t width, int64_t pixels) {
    const float* const from = wide.read_rows(x + at, pixels, width, channels);
    normalise_pixels(from, width, 0, pixels, from_channel(f, c),
                     wide_add.read_rows(advance(add, at), pixels, width, channels), relu,
                     wide.numbers);
    wide.write_rows(y + at, pixels, width, channels);
  });
}

template <Narrow W>
void pixel_moments(const W* x, int64_t channels, int64_t begin, int64_t end, Moments* moments) {
  std::fill_n(moments, channels, Moments());
  WidePixels wide;
  each_block(channels, begin, end, [&](int64_t at, int64_t c, int64_t width, int64_t pixels) {
    Moments block[kChannels];
    pixel_moments(wide.read_rows(x + at, pixels, width, channels), width, 0, pixels, block);
    for (int64_t k = 0; k < width; ++k) moments[c + k].merge(block[k]);
  });
}

template <Narrow W>
void pixel_sums(Mask mask, const W* dy, const W* x, const W* y, int64_t channels, int64_t begin,
                int64_t end, const Columns<float>& f, W* kept, GradSums* sums) {
  std::fill_n(sums, channels, GradSums());
  WidePixels wide_dy, wide_x, wide_y, wide_kept;
  each_block(channels, begin, end, [&](int64_t at, int64_t c, int64_t width, int64_t pixels) {
    GradSums block[kChannels];
    pixel_sums(mask, wide_dy.read_rows(dy + at, pixels, width, channels),
               wide_x.read_rows(x + at, pixels, width, channels),
               wide_y.read_rows(advance(y, at), pixels, width, channels), width, 0, pixels,
               from_channel(f, c), kept ? wide_kept.numbers : nullptr, block);
    if (kept) wide_kept.write_rows(kept + at, pixels, width, channels);
    for (int64_t k = 0; k < width; ++k) {
      sums[c + k].sum += block[k].sum;
      sums[c + k].dot += block[k].dot;
    }
  });
}

template <Narrow W>
void pixel_gradient(Mask mask, const W* dy, const W* x, const W* y, int64_t channels, int64_t begin,
                    int64_t end, const Columns<float>& f, const SlopeColumns<float>& s, W* dx) {
  WidePixels wide_dy, wide_x, wide_y;
  each_block(channels, begin, end, [&](int64_t at, int64_t c, int64_t width, int64_t pixels) {
    pixel_gradient(mask, wide_dy.read_rows(dy + at, pixels, width, channels),
                   wide_x.read_rows(x + at, pixels, width, channels),
                   wide_y.read_rows(advance(y, at), pixels, width, channels), width, 0, pixels,
                   from_channel(f, c), from_channel(s, c), wide_dy.numbers);
    wide_dy.write_rows(dx + at, pixels, width, channels);
  });
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
