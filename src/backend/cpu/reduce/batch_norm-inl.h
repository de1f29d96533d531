// The loops of batch_norm: over runs of one channel (row-major activations) and over pixels of all
// channels (nhwc, or one value a channel and sample). Include it inside a foreach_target file only.
#if defined(BRIM_BATCH_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BATCH_NORM_INL_H_
#undef BRIM_BATCH_NORM_INL_H_
#else
#define BRIM_BATCH_NORM_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <tuple>

#include <brim/core/tensor.h>

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/reduce/moments-inl.h"
#include "backend/cpu/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kPixels = 64;    // summed in the tensor's own type
constexpr int64_t kChannels = 64;  // of pixels, that are summed together

/// y = (x - mean) * a + shift
template <class T>
struct Affine {
  T mean, a, shift;
};
/// dx = a * g - slope * (x - mean) - shift
template <class T>
struct Slope {
  T mean, a, slope, shift;
};
struct GradSums {
  double sum = 0, dot = 0;  // of g and g (x - mean)
};

/// What lets dy pass: everything, positive outputs, or positive outputs worked out again from x.
enum class Mask : uint8_t { none, by_y, by_x };

template <Mask kMask, class T>
HWY_INLINE T masked(T dy, T x, T y, T mean, T a, T shift) {
  if constexpr (kMask == Mask::none) return dy;
  const T z = kMask == Mask::by_y ? y : (x - mean) * a + shift;
  return z <= T(0) ? T(0) : dy;
}

/// Calls body(constant of Mask) for the mask.
template <class Body>
void with_mask(Mask mask, const Body& body) {
  if (mask == Mask::none)
    body(std::integral_constant<Mask, Mask::none>());
  else if (mask == Mask::by_y)
    body(std::integral_constant<Mask, Mask::by_y>());
  else
    body(std::integral_constant<Mask, Mask::by_x>());
}

/// x: (N, C, S). Row-major: S values of one channel follow each other; by pixels: all channels of
/// one.
struct Layout {
  int64_t n, channels, size;
  bool by_pixels;

  explicit Layout(const Tensor& x)
      : n(x.shape()[0]),
        channels(x.shape()[1]),
        size(n * channels > 0 ? x.numel() / (n * channels) : 0),
        by_pixels(size == 1 || !x.is_contiguous()) {}

  template <class Body>
  void each_channel(const Body& body) const {
    parallel_for(channels, std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, n * size)),
                 [&](int64_t begin, int64_t end) {
                   for (; begin < end; ++begin) body(begin);
                 });
  }
  /// body(offset) for each run of `size` values of channel c. Where tensors are too large for the
  /// caches, the beginnings of the next runs of `operands` are fetched meanwhile: runs may be
  /// shorter than what the CPU needs to foresee them.
  template <class... T, class Body>
  void runs(int64_t c, const std::tuple<T*...>& operands, const Body& body) const {
    constexpr int64_t kCached = 2 << 20;  // elements
    const bool fetches = n * channels * size > kCached;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = (i * channels + c) * size;
      if (fetches && i + 1 < n)
        std::apply([&](auto*... p) { (fetch(p, at + channels * size), ...); }, operands);
      body(at);
    }
  }

 private:
  template <class T>
  void fetch(const T* operand, int64_t at) const {
    if (!operand) return;
    constexpr int64_t kLine = 64 / sizeof(T), kMax = 4096 / sizeof(T);
    for (int64_t i = 0; i < std::min(size, kMax); i += kLine) hwy::Prefetch(operand + at + i);
  }
};

/// The pixels in parts, whose number depends on the sizes only.
struct PixelParts {
  int64_t pixels, channels, count;

  explicit PixelParts(const Layout& v)
      : pixels(v.n * v.size),
        channels(v.channels),
        count(std::clamp<int64_t>(pixels * channels / kElementwiseGrain, 1, 64)) {}

  /// Of one S a channel, for `parts` parts (all of them if 0).
  template <class S>
  size_t bytes(int64_t parts = 0) const {
    return static_cast<size_t>((parts ? parts : count) * channels) * sizeof(S);
  }
  /// body(part, first pixel, last pixel)
  template <class Body>
  void each(const Body& body) const {
    parallel_for(count, 1, [&](int64_t part, int64_t end) {
      for (; part < end; ++part) body(part, pixels * part / count, pixels * (part + 1) / count);
    });
  }
};

/// Affine maps of all channels, as columns that vectors can load.
template <class T>
struct Columns {
  T *mean, *a, *shift;
  int64_t channels;
  Columns(void* scratch, int64_t channels)
      : mean(static_cast<T*>(scratch)),
        a(mean + channels),
        shift(a + channels),
        channels(channels) {}
  void set(int64_t c, const Affine<T>& f) {
    mean[c] = f.mean;
    a[c] = f.a;
    shift[c] = f.shift;
  }
  void* end() const { return shift + channels; }
};
template <class T>
struct SlopeColumns {
  T *mean, *a, *slope, *shift;
  SlopeColumns(void* scratch, int64_t channels)
      : mean(static_cast<T*>(scratch)),
        a(mean + channels),
        slope(a + channels),
        shift(slope + channels) {}
  void set(int64_t c, const Slope<T>& s) {
    mean[c] = s.mean;
    a[c] = s.a;
    slope[c] = s.slope;
    shift[c] = s.shift;
  }
};

template <bool kAdd, bool kRelu, class T>
void normalise_loop(const T* x, int64_t n, const T* mean, const T* a, const T* shift, int64_t step,
                    const T* add, T* y) {
  for (int64_t i = 0; i < n; ++i) {
    T z = (x[i] - mean[i * step]) * a[i * step] + shift[i * step];
    if constexpr (kAdd) z += add[i];
    if constexpr (kRelu) z = z < T(0) ? T(0) : z;
    y[i] = z;
  }
}
/// n values, whose maps lie `kStep` (0: the same one) apart.
template <int kStep, class T>
HWY_INLINE void normalise(const T* x, int64_t n, const T* mean, const T* a, const T* shift,
                          const T* add, bool relu, T* y) {
  if (add)
    relu ? normalise_loop<true, true>(x, n, mean, a, shift, kStep, add, y)
         : normalise_loop<true, false>(x, n, mean, a, shift, kStep, add, y);
  else
    relu ? normalise_loop<false, true>(x, n, mean, a, shift, kStep, add, y)
         : normalise_loop<false, false>(x, n, mean, a, shift, kStep, add, y);
}

template <class T>
void normalise_run(const T* x, int64_t n, const Affine<T>& f, const T* add, bool relu, T* y) {
  normalise<0>(x, n, &f.mean, &f.a, &f.shift, add, relu, y);
}

template <class T>
void normalise_pixels(const T* x, int64_t channels, int64_t begin, int64_t end, const Columns<T>& f,
                      const T* add, bool relu, T* y) {
  for (int64_t p = begin; p < end; ++p) {
    const int64_t at = p * channels;
    normalise<1>(x + at, channels, f.mean, f.a, f.shift, add ? add + at : nullptr, relu, y + at);
  }
}

/// Moments of each channel over the pixels [begin, end). Distances are taken to a rough mean of
/// each block of pixels.
template <class T>
void pixel_moments(const T* x, int64_t channels, int64_t begin, int64_t end, Moments* moments) {
  std::fill_n(moments, channels, Moments());
  for (int64_t first = begin; first < end; first += kPixels) {
    const int64_t last = std::min(end, first + kPixels);
    const double count = static_cast<double>(last - first);
    for (int64_t c = 0; c < channels; c += kChannels) {
      const int64_t width = std::min(kChannels, channels - c);
      T centre[kChannels] = {}, sum[kChannels] = {}, squares[kChannels] = {};
      const T* block = x + first * channels + c;
      const auto add = [&](int64_t w) {
        for (int64_t p = 0; p < last - first; ++p)
          for (int64_t k = 0; k < w; ++k) centre[k] += block[p * channels + k];
        for (int64_t k = 0; k < w; ++k) centre[k] /= static_cast<T>(last - first);
        for (int64_t p = 0; p < last - first; ++p)
          for (int64_t k = 0; k < w; ++k) {
            const T e = block[p * channels + k] - centre[k];
            sum[k] += e;
            squares[k] += e * e;
          }
      };
      if (width == kChannels)
        add(kChannels);
      else
        add(width);
      for (int64_t k = 0; k < width; ++k)
        moments[c + k].merge(Moments::about(centre[k], sum[k], squares[k], count));
    }
  }
}

/// Sums of g and g (x - mean) along a run; g goes to `kept` if that is there.
template <class T>
void run_sums(Mask mask, const T* dy, const T* x, const T* y, int64_t n, const Affine<T>& f,
              T* kept, double& sum, double& dot) {
  with_mask(mask, [&](auto constant) {
    constexpr Mask kMask = decltype(constant)::value;
    const hn::ScalableTag<T> d;
    for (int64_t at = 0; at < n; at += kRun) {
      const int64_t count = std::min(kRun, n - at);
      HWY_ALIGN T g[kRun];
      for (int64_t i = 0; i < count; ++i)
        g[i] = masked<kMask>(dy[at + i], x[at + i], kMask == Mask::by_y ? y[at + i] : T(0), f.mean,
                             f.a, f.shift);
      if (kept) std::copy_n(g, count, kept + at);
      const T* from = x + at;
      sum += static_cast<double>(sum_run<T>(
          count, [&](int64_t i) HWY_ATTR { return hn::LoadU(d, g + i); },
          [&](int64_t i) { return g[i]; }));
      dot += static_cast<double>(sum_run<T>(
          count,
          [&](int64_t i) HWY_ATTR {
            return hn::Mul(hn::LoadU(d, g + i),
                           hn::Sub(hn::LoadU(d, from + i), hn::Set(d, f.mean)));
          },
          [&](int64_t i) { return g[i] * (from[i] - f.mean); }));
    }
  });
}

// Of fixed statistics an infinite x has no part in dx. Those loops stand apart, so that the others
// round alike for all masks.
template <class T>
void run_gradient(Mask mask, const T* dy, const T* x, const T* y, int64_t n, const Affine<T>& f,
                  const Slope<T>& s, T* dx) {
  with_mask(mask, [&](auto constant) {
    constexpr Mask kMask = decltype(constant)::value;
    const auto passed = [&](int64_t i) HWY_ATTR {
      return masked<kMask>(dy[i], x[i], kMask == Mask::by_y ? y[i] : T(0), f.mean, f.a, f.shift);
    };
    if (s.slope == T(0) && s.shift == T(0)) {
      for (int64_t i = 0; i < n; ++i) dx[i] = s.a * passed(i);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      const T g = passed(i);
      dx[i] = s.a * g - s.slope * (x[i] - s.mean) - s.shift;
    }
  });
}

template <class T>
void pixel_sums(Mask mask, const T* dy, const T* x, const T* y, int64_t channels, int64_t begin,
                int64_t end, const Columns<T>& f, T* kept, GradSums* sums) {
  std::fill_n(sums, channels, GradSums());
  with_mask(mask, [&](auto constant) {
    constexpr Mask kMask = decltype(constant)::value;
    for (int64_t first = begin; first < end; first += kPixels)
      for (int64_t c = 0; c < channels; c += kChannels) {
        const int64_t width = std::min(kChannels, channels - c);
        T sum[kChannels] = {}, dot[kChannels] = {};
        const T *mean = f.mean + c, *a = f.a + c, *shift = f.shift + c;
        const auto add = [&](int64_t w) {
          for (int64_t p = first; p < std::min(end, first + kPixels); ++p) {
            const int64_t at = p * channels + c;
            for (int64_t k = 0; k < w; ++k) {
              const T g =
                  masked<kMask>(dy[at + k], x[at + k], kMask == Mask::by_y ? y[at + k] : T(0),
                                mean[k], a[k], shift[k]);
              if (kept) kept[at + k] = g;
              sum[k] += g;
              dot[k] += g * (x[at + k] - mean[k]);
            }
          }
        };
        if (width == kChannels)
          add(kChannels);
        else
          add(width);
        for (int64_t k = 0; k < width; ++k) {
          sums[c + k].sum += static_cast<double>(sum[k]);
          sums[c + k].dot += static_cast<double>(dot[k]);
        }
      }
  });
}

template <class T>
void pixel_gradient(Mask mask, const T* dy, const T* x, const T* y, int64_t channels, int64_t begin,
                    int64_t end, const Columns<T>& f, const SlopeColumns<T>& s, T* dx) {
  bool flat = true;
  for (int64_t k = 0; k < channels; ++k) flat &= s.slope[k] == T(0) && s.shift[k] == T(0);
  with_mask(mask, [&](auto constant) {
    constexpr Mask kMask = decltype(constant)::value;
    for (int64_t p = begin; p < end; ++p) {
      const int64_t at = p * channels;
      const auto passed = [&](int64_t k) HWY_ATTR {
        return masked<kMask>(dy[at + k], x[at + k], kMask == Mask::by_y ? y[at + k] : T(0),
                             f.mean[k], f.a[k], f.shift[k]);
      };
      if (flat) {
        for (int64_t k = 0; k < channels; ++k) dx[at + k] = s.a[k] * passed(k);
        continue;
      }
      for (int64_t k = 0; k < channels; ++k) {
        const T g = passed(k);
        dx[at + k] = s.a[k] * g - s.slope[k] * (x[at + k] - s.mean[k]) - s.shift[k];
      }
    }
  });
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
