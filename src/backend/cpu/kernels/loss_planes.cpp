// cross_entropy on the CPU where the classes are planes, as in row-major images with a label for
// each pixel: vectors hold neighbouring rows, which are not copied together.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/loss_planes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/reduce/class_loss-inl.h"
#include "backend/cpu/reduce/softmax-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// Calls body(index of the first row, its place in x, rows) for runs of rows that are neighbours in
/// planes, in parallel.
template <class T, class Body>
void each_run(const Rows<T>& r, const Body& body) {
  parallel_for(r.n, r.grain(), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t count = std::min(r.size - begin % r.size, end - begin);
      body(begin, r.begin_of(begin), count);
      begin += count;
    }
  });
}

/// `count` numbers as vectors, filled up with 0; at most a vector of them where there is one.
template <int kVectors, class T>
HWY_INLINE void load_run(const T* x, int64_t count, hn::Vec<hn::ScalableTag<T>>* v) {
  const hn::ScalableTag<T> d;
  if constexpr (kVectors > 1) {
    for (int k = 0; k < kVectors; ++k) v[k] = hn::LoadU(d, x + k * hn::Lanes(d));
  } else {
    each_vector(x, count, T(0), [&](auto part, int64_t, int64_t) { v[0] = part; });
  }
}

/// The largest logits of neighbouring rows, and the sums of exp(logit - largest).
template <int kVectors, class T>
HWY_INLINE void statistics_of(const T* x, const Rows<T>& r, int64_t count, T* largest, T* sums) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> m[kVectors], sum[kVectors], v[kVectors];
  for (int k = 0; k < kVectors; ++k) {
    m[k] = hn::Set(d, -std::numeric_limits<T>::infinity());
    sum[k] = hn::Zero(d);
  }
  for (int64_t c = 0; c < r.classes; ++c) {
    load_run<kVectors>(x + c * r.size, count, v);
    for (int k = 0; k < kVectors; ++k)
      m[k] = hn::IfThenElse(hn::Or(hn::Gt(v[k], m[k]), hn::IsNaN(v[k])), v[k], m[k]);
  }
  // Of many classes, terms of a few in T, then in f64.
  constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(T);
  HWY_ALIGN T some[kVectors * kLanes];
  double total[kVectors * kLanes] = {};
  const auto widen = [&]() HWY_ATTR {
    for (int k = 0; k < kVectors; ++k) {
      hn::Store(sum[k], d, some + k * lanes);
      sum[k] = hn::Zero(d);
    }
    for (int64_t i = 0; i < kVectors * lanes; ++i) total[i] += static_cast<double>(some[i]);
  };
  for (int64_t c = 0; c < r.classes; ++c) {
    load_run<kVectors>(x + c * r.size, count, v);
    for (int k = 0; k < kVectors; ++k)
      sum[k] = hn::Add(sum[k], exp_below_0(d, hn::Sub(v[k], m[k])));
    if ((c + 1) % kSummedRows == 0) widen();
  }
  widen();
  const int64_t rows = kVectors > 1 ? kVectors * lanes : count;
  for (int64_t i = 0; i < rows; ++i) sums[i] = static_cast<T>(total[i]);
  for (int k = 0; k < kVectors; ++k)
    store_part(m[k], largest + k * lanes, kVectors > 1 ? lanes : count);
}

/// Calls wide(i) for groups of four vectors of `count` rows, then narrow(i, rows) for vectors.
template <class T, class Wide, class Narrow>
HWY_INLINE void in_vectors(int64_t count, const Wide& wide, const Narrow& narrow) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) wide(i);
  for (; i < count; i += lanes) narrow(i, std::min(lanes, count - i));
}

template <class T>
void cross_entropy_planes(const Context& context, const Tensor& x, const Tensor& target,
                          const Tensor& weight, Tensor& loss, Tensor& stats,
                          const ClassLoss& options) {
  const Rows<T> r(x, target, weight);
  check_labels("cross_entropy", r, options.ignore_index);
  T* largest = static_cast<T*>(stats.raw());
  T* log_sum = largest + r.n;
  each_run(r, [&](int64_t first, int64_t place, int64_t count) {
    const T* const from = r.x + place;
    T *const m = largest + first, *const s = log_sum + first;
    in_vectors<T>(
        count, [&](int64_t i) { statistics_of<4>(from + i, r, 0, m + i, s + i); },
        [&](int64_t i, int64_t n) { statistics_of<1>(from + i, r, n, m + i, s + i); });
    for (int64_t i = 0; i < count; ++i) s[i] = std::log(s[i]);
  });
  reduce_cross_entropy(context, r, largest, log_sum, loss, options);
}

/// What the gradients of neighbouring rows have in common with those of all classes.
template <class T>
struct RunGradient {
  const T *largest, *log_sum;
  const T *scale, *even;  // of the softmax, and what smoothing takes off for a weight of 1
};

template <int kVectors, class T>
HWY_INLINE void gradient_of(const T* x, const Rows<T>& r, const RunGradient<T>& run, bool smooths,
                            int64_t count, T* dx) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V m[kVectors], s[kVectors], scale[kVectors], even[kVectors], v[kVectors];
  load_run<kVectors>(run.largest, count, m);
  load_run<kVectors>(run.log_sum, count, s);
  load_run<kVectors>(run.scale, count, scale);
  load_run<kVectors>(run.even, count, even);
  for (int64_t c = 0; c < r.classes; ++c) {
    load_run<kVectors>(x + c * r.size, count, v);
    const V off = hn::Set(d, smooths && r.weight ? r.weight[c] : T(1));
    for (int k = 0; k < kVectors; ++k) {
      V g = hn::Mul(scale[k], exp_below_0(d, hn::Sub(hn::Sub(v[k], m[k]), s[k])));
      if (smooths) g = hn::Sub(g, hn::Mul(even[k], off));
      store_part(g, dx + c * r.size + k * lanes, kVectors > 1 ? lanes : count);
    }
  }
}

template <class T>
void cross_entropy_planes_grad(const Context&, const Tensor& tdy, const Tensor& x,
                               const Tensor& target, const Tensor& weight, const Tensor& stats,
                               Tensor& tdx, const ClassLoss& options) {
  const Rows<T> r(x, target, weight);
  const CrossEntropyGrad<T> grad(r, tdy, stats, options);
  T* dx = static_cast<T*>(tdx.raw());
  constexpr int64_t kRows = 256;
  each_run(r, [&](int64_t start, int64_t start_place, int64_t all) {
    T scale[kRows], even[kRows];
    for (int64_t done = 0; done < all; done += kRows) {
      const int64_t first = start + done, place = start_place + done;
      const int64_t count = std::min(kRows, all - done);
      for (int64_t i = 0; i < count; ++i) {
        const bool counts = r.label[first + i] != options.ignore_index;
        const T g = grad.incoming(first + i);
        scale[i] = counts ? g * (grad.hard * r.factor(first + i) + grad.spread) : T(0);
        even[i] = g * grad.smooth;
      }
      const auto at = [&](int64_t i) {
        return RunGradient<T>{grad.largest + first + i, grad.log_sum + first + i, scale + i,
                              even + i};
      };
      const bool smooths = grad.smooth > 0;
      in_vectors<T>(
          count,
          [&](int64_t i) { gradient_of<4>(r.x + place + i, r, at(i), smooths, 0, dx + place + i); },
          [&](int64_t i, int64_t n) {
            gradient_of<1>(r.x + place + i, r, at(i), smooths, n, dx + place + i);
          });
      for (int64_t i = 0; i < count; ++i) {
        T* const out = dx + place + i;
        if (const int64_t label = r.label[first + i]; label != options.ignore_index)
          out[label * r.size] -= grad.incoming(first + i) * grad.hard * r.factor(first + i);
        else
          for (int64_t c = 0; c < r.classes; ++c) out[c * r.size] = T(0);
      }
    }
  });
}

void register_loss_planes() {
  register_floats<&cross_entropy_planes<float>, &cross_entropy_planes<double>>(
      "cross_entropy_planes");
  register_floats<&cross_entropy_planes_grad<float>, &cross_entropy_planes_grad<double>>(
      "cross_entropy_planes_grad");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_loss_planes);
#endif
