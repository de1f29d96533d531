// Vectors hold neighbouring channels.
#include "rt/kernels/pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/pool.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "rt/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

/// Rows or columns of the image that a window has: first, first + dilation, .. before last.
struct Span {
  int64_t first, last;
  int64_t covered;  // with the padding that counts
  Span(int64_t at, int64_t size, int64_t kernel, int64_t dilation, int64_t padding) {
    first = at >= 0 ? at : at + (-at + dilation - 1) / dilation * dilation;
    const int64_t end = at + (kernel - 1) * dilation + 1;
    last = std::min(size, end);
    covered = std::min(end, size + padding) - at;
  }
  int64_t count(int64_t dilation) const {
    return last > first ? (last - first + dilation - 1) / dilation : 0;
  }
};

/// Of a window's elements: the largest. NaN wins, beside the chain of maxima, which would wait for
/// comparisons.
struct Largest {
  VecF sum;
  hn::Mask<TagF> has_nan;
  HWY_INLINE Largest()
      : sum(hn::Set(TagF(), -std::numeric_limits<float>::infinity())), has_nan(hn::Lt(sum, sum)) {}
  HWY_INLINE void add(VecF x) {
    sum = hn::Max(sum, x);
    has_nan = hn::Or(has_nan, hn::IsNaN(x));
  }
  HWY_INLINE VecF result(int64_t) const {
    return hn::IfThenElse(has_nan, hn::Set(TagF(), std::numeric_limits<float>::quiet_NaN()), sum);
  }
};

struct Average {
  VecF sum;
  HWY_INLINE Average() : sum(hn::Zero(TagF())) {}
  HWY_INLINE void add(VecF x) { sum = hn::Add(sum, x); }
  HWY_INLINE VecF result(int64_t elements) const {
    return hn::Div(sum, hn::Set(TagF(), static_cast<float>(elements)));
  }
};

template <class Window>
void pool_rows(const Pooling& p, int64_t begin, int64_t end) {
  const TagF d;
  const PoolAttributes& a = p.a;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t image = r / p.oh, row = r % p.oh;
    const Span rows(row * a.stride_h - a.top, p.h, a.kernel_h, a.dilation_h, a.top);
    for (int64_t column = 0; column < p.ow; ++column) {
      const Span columns(column * a.stride_w - a.left, p.w, a.kernel_w, a.dilation_w, a.left);
      const int64_t elements = a.count_padding
                                   ? rows.covered * columns.covered
                                   : rows.count(a.dilation_h) * columns.count(a.dilation_w);
      float* const y = p.y + (r * p.ow + column) * p.c;
      for (int64_t c = 0; c < p.c; c += kLanes) {
        const int64_t count = std::min<int64_t>(kLanes, p.c - c);
        Window window;
        for (int64_t i = rows.first; i < rows.last; i += a.dilation_h) {
          const float* x = p.x + ((image * p.h + i) * p.w + columns.first) * p.c + c;
          for (int64_t j = columns.first; j < columns.last;
               j += a.dilation_w, x += a.dilation_w * p.c) {
            window.add(count == kLanes ? hn::LoadU(d, x) : load_part(x, count));
          }
        }
        const VecF result = window.result(elements);
        count == kLanes ? hn::StoreU(result, d, y + c) : store_part(result, count, y + c);
      }
    }
  }
}

template <class T>
int64_t rows_of_a_thread(const PoolingOf<T>& p) {
  return rows_worth_a_thread(1 << 15, static_cast<double>(p.ow) * static_cast<double>(p.c) *
                                          static_cast<double>(p.a.kernel_h) *
                                          static_cast<double>(p.a.kernel_w));
}

template <class Window>
void run_pool(const Pooling& p, const Threads& threads) {
  parallel_parts(threads, p.n * p.oh, rows_of_a_thread(p),
                 [&](int64_t, int64_t begin, int64_t end) { pool_rows<Window>(p, begin, end); });
}
void run_max_pool(const Pooling& p, const Threads& threads) { run_pool<Largest>(p, threads); }
void run_average_pool(const Pooling& p, const Threads& threads) { run_pool<Average>(p, threads); }

/// The largest of bytes of a window, for as many channels as a vector has.
template <class D>
HWY_INLINE void max_of_bytes(D d, const U8Pooling& p, const uint8_t* x, const Span& rows,
                             const Span& columns, uint8_t* y) {
  auto max = hn::Zero(d);
  for (int64_t i = rows.first; i < rows.last; i += p.a.dilation_h) {
    const uint8_t* at = x + (i * p.w + columns.first) * p.c;
    for (int64_t j = columns.first; j < columns.last;
         j += p.a.dilation_w, at += p.a.dilation_w * p.c)
      max = hn::Max(max, hn::LoadU(d, at));
  }
  hn::StoreU(max, d, y);
}

void run_max_pool_u8(const U8Pooling& p, const Threads& threads) {
  const hn::CappedTag<uint8_t, 16> d;
  constexpr int64_t kFew = HWY_TARGET == HWY_SCALAR ? 1 : 4;
  const hn::CappedTag<uint8_t, kFew> few;
  const hn::CappedTag<uint8_t, 2 * kFew> half;
  const hn::CappedTag<uint8_t, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  parallel_parts(
      threads, p.n * p.oh, rows_of_a_thread(p), [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t row = r % p.oh;
          const Span rows(row * p.a.stride_h - p.a.top, p.h, p.a.kernel_h, p.a.dilation_h, p.a.top);
          const uint8_t* const x = p.x + r / p.oh * p.h * p.w * p.c;
          for (int64_t column = 0; column < p.ow; ++column) {
            const Span columns(column * p.a.stride_w - p.a.left, p.w, p.a.kernel_w, p.a.dilation_w,
                               p.a.left);
            uint8_t* const y = p.y + (r * p.ow + column) * p.c;
            int64_t c = 0;
            for (; c + lanes <= p.c; c += lanes) max_of_bytes(d, p, x + c, rows, columns, y + c);
            // More than the last channels, where the next pixel follows: its own come later.
            if (kFew > 1 && p.c > 1 && column + 1 < p.ow && columns.last < p.w) {
              const int64_t rest = p.c - c;
              if (rest > 8)
                max_of_bytes(d, p, x + c, rows, columns, y + c);
              else if (rest > 4)
                max_of_bytes(half, p, x + c, rows, columns, y + c);
              else if (rest > 0)
                max_of_bytes(few, p, x + c, rows, columns, y + c);
              continue;
            }
            for (; c + kFew <= p.c; c += kFew) max_of_bytes(few, p, x + c, rows, columns, y + c);
            for (; c < p.c; ++c) max_of_bytes(one, p, x + c, rows, columns, y + c);
          }
        }
      });
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_max_pool);
BRIM_RT_ISA_TABLE(run_max_pool_u8);
BRIM_RT_ISA_TABLE(run_average_pool);

void max_pool(Isa isa, const Pooling& pool, const Threads& threads) {
  run_max_pool_table.of(isa)(pool, threads);
}
void max_pool_u8(Isa isa, const U8Pooling& pool, const Threads& threads) {
  run_max_pool_u8_table.of(isa)(pool, threads);
}
void average_pool(Isa isa, const Pooling& pool, const Threads& threads) {
  run_average_pool_table.of(isa)(pool, threads);
}

}  // namespace brim::rt
#endif
