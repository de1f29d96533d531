// batch_norm and layer_norm on the CPU. Statistics are gathered in f64 blocks in a fixed order, so
// the number of threads does not change them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/loop.h"
#include "backend/cpu/reduce_steps-inl.h"
#include "backend/norm_params.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kColumns = 64;

template <class T>
const T* in(const Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.raw()) : nullptr;
}
template <class T>
T* out(Tensor& t) {
  return t.defined() ? static_cast<T*>(t.raw()) : nullptr;
}

/// Sums of dy and of dy (x - mean) along a row.
template <class T>
void grad_sums(const T* dy, const T* x, int64_t n, T mean, double& sum, double& dot) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, mean);
  int64_t i = 0;
  while (i + lanes <= n) {
    const int64_t end = std::min(n, i + kBlock);
    auto s = hn::Zero(d), p = hn::Zero(d);
    for (; i + lanes <= end; i += lanes) {
      const auto g = hn::LoadU(d, dy + i);
      s = hn::Add(s, g);
      p = hn::MulAdd(g, hn::Sub(hn::LoadU(d, x + i), m), p);
    }
    sum += hn::GetLane(hn::SumOfLanes(d, s));
    dot += hn::GetLane(hn::SumOfLanes(d, p));
  }
  T s = 0, p = 0;
  for (; i < n; ++i) {
    s += dy[i];
    p += dy[i] * (x[i] - mean);
  }
  sum += s;
  dot += p;
}

/// x: (N, C, S); the channels [first, first + width) together: one of them unless S is 1.
template <class T>
struct Channels {
  int64_t n, channels, size;

  explicit Channels(const Tensor& x)
      : n(x.shape()[0]),
        channels(x.shape()[1]),
        size(x.shape()[0] * x.shape()[1] > 0 ? x.numel() / (x.shape()[0] * x.shape()[1]) : 0) {}
  double count() const { return static_cast<double>(n * size); }
  int64_t tile() const { return size == 1 ? kColumns : 1; }

  /// body(first, width) for all tiles of channels.
  template <class Body>
  void each(const Body& body) const {
    const int64_t step = tile(), tiles = (channels + step - 1) / step;
    const int64_t work = std::max<int64_t>(1, n * size * step);
    parallel_for(tiles, std::max<int64_t>(1, kElementwiseGrain / work),
                 [&](int64_t begin, int64_t end) {
                   for (; begin < end; ++begin)
                     body(begin * step, std::min(step, channels - begin * step));
                 });
  }

  /// row(offset, channel - first, count) covers the tile, in order.
  template <class Row, class Columns>
  void rows(int64_t first, const Row& row, const Columns& columns) const {
    for (int64_t i = 0; i < n; ++i) {
      if (size == 1)
        columns(i * channels + first);
      else
        row((i * channels + first) * size);
    }
  }

  void statistics(const T* x, int64_t first, int64_t width, double* mean, double* var) const {
    T centre[kColumns];
    for (int64_t c = 0; c < width; ++c) mean[c] = var[c] = 0;
    rows(
        first,
        [&](int64_t at) {
          for (int64_t i = 0; i < size; i += kBlock)
            mean[0] += reduce_row<Sum<T>>(x + at + i, std::min(kBlock, size - i), 1, 0);
        },
        [&](int64_t at) {
          for (int64_t c = 0; c < width; ++c) mean[c] += x[at + c];
        });
    for (int64_t c = 0; c < width; ++c) {
      mean[c] /= count();
      centre[c] = static_cast<T>(mean[c]);
    }
    rows(
        first,
        [&](int64_t at) {
          for (int64_t i = 0; i < size; i += kBlock)
            var[0] += reduce_row<Squares<T>>(x + at + i, std::min(kBlock, size - i), 1, centre[0]);
        },
        [&](int64_t at) {
          for (int64_t c = 0; c < width; ++c) {
            const double e = static_cast<double>(x[at + c] - centre[c]);
            var[c] += e * e;
          }
        });
    for (int64_t c = 0; c < width; ++c) var[c] /= count();
  }
};

template <class T>
void batch_norm(const Context&, const Tensor& tx, const Tensor& weight, const Tensor& bias,
                const Tensor& fixed_mean, const Tensor& fixed_var, Tensor& running_mean,
                Tensor& running_var, Tensor& ty, Tensor& tmean, Tensor& tscale,
                const backend::BatchNormParams& params) {
  const Channels<T> v(tx);
  const T *x = in<T>(tx), *w = in<T>(weight), *b = in<T>(bias);
  T *y = out<T>(ty), *mean = out<T>(tmean), *scale = out<T>(tscale);
  const T *fm = in<T>(fixed_mean), *fv = in<T>(fixed_var);
  T *rm = out<T>(running_mean), *rv = out<T>(running_var);
  v.each([&](int64_t first, int64_t width) {
    double m[kColumns], var[kColumns];
    if (params.training) {
      v.statistics(x, first, width, m, var);
    } else {
      for (int64_t c = 0; c < width; ++c) {
        m[c] = fm[first + c];
        var[c] = fv[first + c];
      }
    }
    T a[kColumns], centre[kColumns], shift[kColumns];
    for (int64_t c = 0; c < width; ++c) {
      const int64_t k = first + c;
      mean[k] = centre[c] = static_cast<T>(m[c]);
      scale[k] = static_cast<T>(1 / std::sqrt(var[c] + params.eps));
      a[c] = w ? scale[k] * w[k] : scale[k];
      shift[c] = b ? b[k] : T(0);
      if (rm && v.count() > 0) {
        const double p = params.momentum, unbiased = var[c] * v.count() / (v.count() - 1);
        rm[k] = static_cast<T>((1 - p) * rm[k] + p * m[c]);
        rv[k] = static_cast<T>((1 - p) * rv[k] + p * unbiased);
      }
    }
    v.rows(
        first,
        [&](int64_t at) {
          for (int64_t i = at; i < at + v.size; ++i) y[i] = (x[i] - centre[0]) * a[0] + shift[0];
        },
        [&](int64_t at) {
          for (int64_t c = 0; c < width; ++c) y[at + c] = (x[at + c] - centre[c]) * a[c] + shift[c];
        });
  });
}

template <class T>
void batch_norm_grad(const Context&, const Tensor& tdy, const Tensor& tx, const Tensor& weight,
                     const Tensor& tmean, const Tensor& tscale, Tensor& tdx, Tensor& dweight,
                     Tensor& dbias, bool training) {
  const Channels<T> v(tx);
  const T *dy = in<T>(tdy), *x = in<T>(tx), *w = in<T>(weight);
  const T *mean = in<T>(tmean), *scale = in<T>(tscale);
  T *dx = out<T>(tdx), *dw = out<T>(dweight), *db = out<T>(dbias);
  v.each([&](int64_t first, int64_t width) {
    double sum[kColumns] = {}, dot[kColumns] = {};
    v.rows(
        first, [&](int64_t at) { grad_sums(dy + at, x + at, v.size, mean[first], sum[0], dot[0]); },
        [&](int64_t at) {
          for (int64_t c = 0; c < width; ++c) {
            sum[c] += dy[at + c];
            dot[c] += static_cast<double>(dy[at + c] * (x[at + c] - mean[first + c]));
          }
        });
    // dx = a (dy - mean(dy) - unit mean(dy unit)) = a dy - slope (x - mean) - shift
    T a[kColumns], slope[kColumns] = {}, shift[kColumns] = {};
    for (int64_t c = 0; c < width; ++c) {
      const int64_t k = first + c;
      const double s = scale[k];
      dw[k] = static_cast<T>(dot[c] * s);
      db[k] = static_cast<T>(sum[c]);
      const double factor = w ? s * static_cast<double>(w[k]) : s;
      a[c] = static_cast<T>(factor);
      if (training && v.count() > 0) {
        slope[c] = static_cast<T>(factor * dot[c] * s * s / v.count());
        shift[c] = static_cast<T>(factor * sum[c] / v.count());
      }
    }
    v.rows(
        first,
        [&](int64_t at) {
          const T m = mean[first];
          for (int64_t i = at; i < at + v.size; ++i)
            dx[i] = a[0] * dy[i] - slope[0] * (x[i] - m) - shift[0];
        },
        [&](int64_t at) {
          for (int64_t c = 0; c < width; ++c)
            dx[at + c] = a[c] * dy[at + c] - slope[c] * (x[at + c] - mean[first + c]) - shift[c];
        });
  });
}

template <class T>
void layer_norm(const Context&, const Tensor& tx, const Tensor& weight, const Tensor& bias,
                Tensor& ty, Tensor& tmean, Tensor& tscale, double eps) {
  const int64_t rows = tmean.numel(), n = rows > 0 ? tx.numel() / rows : 0;
  const T *x = in<T>(tx), *w = in<T>(weight), *b = in<T>(bias);
  T *y = out<T>(ty), *mean = out<T>(tmean), *scale = out<T>(tscale);
  parallel_for(rows, std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(n, 1)),
               [&](int64_t begin, int64_t end) {
                 for (; begin < end; ++begin) {
                   const T* from = x + begin * n;
                   T* to = y + begin * n;
                   double sum = 0, squares = 0;
                   for (int64_t i = 0; i < n; i += kBlock)
                     sum += reduce_row<Sum<T>>(from + i, std::min(kBlock, n - i), 1, 0);
                   const T m = static_cast<T>(sum / static_cast<double>(n));
                   for (int64_t i = 0; i < n; i += kBlock)
                     squares += reduce_row<Squares<T>>(from + i, std::min(kBlock, n - i), 1, m);
                   const T s =
                       static_cast<T>(1 / std::sqrt(squares / static_cast<double>(n) + eps));
                   mean[begin] = m;
                   scale[begin] = s;
                   if (w && b)
                     for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - m) * s * w[i] + b[i];
                   else
                     for (int64_t i = 0; i < n; ++i)
                       to[i] = (from[i] - m) * s * (w ? w[i] : T(1)) + (b ? b[i] : T(0));
                 }
               });
}

template <class T>
void layer_norm_grad(const Context& context, const Tensor& tdy, const Tensor& tx,
                     const Tensor& weight, const Tensor& tmean, const Tensor& tscale, Tensor& tdx,
                     Tensor& dweight, Tensor& dbias) {
  const int64_t rows = tmean.numel(), n = dweight.numel();
  const T *dy = in<T>(tdy), *x = in<T>(tx), *w = in<T>(weight);
  const T *mean = in<T>(tmean), *scale = in<T>(tscale);
  T *dx = out<T>(tdx), *dw = out<T>(dweight), *db = out<T>(dbias);
  // Parts of rows, their number fixed by the shape, each with column sums of its own.
  const int64_t parts = std::clamp<int64_t>(rows / 32, 1, 16);
  const Workspace space =
      context.workspace(static_cast<size_t>(2 * parts * n + 1) * sizeof(double) +
                        static_cast<size_t>(parts * n) * sizeof(T));
  double* sums = space.as<double>();
  T* scratch = reinterpret_cast<T*>(sums + 2 * parts * n + 1);
  const int64_t grain =
      std::max<int64_t>(1, kElementwiseGrain * parts / std::max<int64_t>(rows * n, 1));
  parallel_for(parts, grain, [&](int64_t part, int64_t end) {
    for (; part < end; ++part) {
      double *sw = sums + 2 * part * n, *sb = sw + n;
      T* g = scratch + part * n;
      std::fill_n(sw, 2 * n, 0.0);
      for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; ++r) {
        const T *from = x + r * n, *up = dy + r * n, m = mean[r], s = scale[r];
        T* to = dx + r * n;
        for (int64_t i = 0; i < n; ++i) {
          sw[i] += static_cast<double>(up[i] * ((from[i] - m) * s));
          sb[i] += static_cast<double>(up[i]);
        }
        const T* weighted = up;
        if (w) {
          for (int64_t i = 0; i < n; ++i) g[i] = up[i] * w[i];
          weighted = g;
        }
        double sum = 0, dot = 0;
        grad_sums(weighted, from, n, m, sum, dot);
        const double count = static_cast<double>(n), sd = static_cast<double>(s);
        const T shift = static_cast<T>(sd * sum / count);
        const T slope = static_cast<T>(sd * sd * sd * dot / count);
        for (int64_t i = 0; i < n; ++i) to[i] = s * weighted[i] - slope * (from[i] - m) - shift;
      }
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    double a = 0, b = 0;
    for (int64_t part = 0; part < parts; ++part) {
      a += sums[2 * part * n + i];
      b += sums[(2 * part + 1) * n + i];
    }
    dw[i] = static_cast<T>(a);
    db[i] = static_cast<T>(b);
  }
}

template <class T>
void register_for() {
  constexpr DType kType = dtype_of<T>;
  backend::register_kernel("batch_norm", DeviceKind::cpu, kType, &batch_norm<T>);
  backend::register_kernel("batch_norm_grad", DeviceKind::cpu, kType, &batch_norm_grad<T>);
  backend::register_kernel("layer_norm", DeviceKind::cpu, kType, &layer_norm<T>);
  backend::register_kernel("layer_norm_grad", DeviceKind::cpu, kType, &layer_norm_grad<T>);
}

void register_norm() {
  register_for<float>();
  register_for<double>();
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {
HWY_EXPORT(register_norm);
static const bool registered = (HWY_DYNAMIC_DISPATCH(register_norm)(), true);
}  // namespace brim::cpu
#endif
