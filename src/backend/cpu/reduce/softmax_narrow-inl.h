// softmax, log_softmax and their gradients of 16-bit floats, in registers of f32; results are
// rounded to nearest even. Include it inside a foreach_target file only.
#if defined(BRIM_SOFTMAX_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_SOFTMAX_NARROW_INL_H_
#undef BRIM_SOFTMAX_NARROW_INL_H_
#else
#define BRIM_SOFTMAX_NARROW_INL_H_
#endif

#include <hwy/cache_control.h>

#include "backend/cpu/elementwise/map_run-inl.h"
#include "backend/cpu/reduce/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kTerms = 8192;  // exponentials that are kept from the sum to the result

/// exp(v) of v <= 0 to 2^-22 of it near 0 and 2^-18 anywhere, which 16 bits hardly show; 0 below
/// the normal numbers of f32.
template <class D, class V>
HWY_INLINE V narrow_exp(D d, V v) {
  const hn::RebindToSigned<D> ints;
  const auto log2e = hn::Set(d, 1.44269504f);
  // Added to so large a number, the exponent and its bias of 127 are the lowest bits.
  const auto large = hn::Set(d, 0x1.8p23f + 127);
  const auto biased = hn::MulAdd(v, log2e, large);
  const auto f = hn::MulSub(v, log2e, hn::Sub(biased, large));
  // 2^f on [-1/2, 1/2], the least relative error of five coefficients.
  auto p = hn::MulAdd(f, hn::Set(d, 0.0013264727f), hn::Set(d, 0.009671513f));
  p = hn::MulAdd(f, p, hn::Set(d, 0.055507336f));
  p = hn::MulAdd(f, p, hn::Set(d, 0.24022242f));
  p = hn::MulAdd(f, p, hn::Set(d, 0.693147f));
  p = hn::MulAdd(f, p, hn::Set(d, 1.0f));
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(ints, biased)));
  return hn::IfThenZeroElse(hn::Lt(v, hn::Set(d, -87.3365f)), hn::Mul(p, power));
}

template <bool kLog, class W>
void narrow_softmax_row(const W* x, W* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const float largest = row_max(x, n);
  const auto m = hn::Set(d, largest);
  HWY_ALIGN float terms[kLog ? 1 : kTerms + HWY_MAX_BYTES];
  const bool keeps = !kLog && n <= kTerms;
  const double total =
      sum_in_blocks<float>(n, [&](int64_t begin, int64_t of_block, auto& sums) HWY_ATTR {
        each_vector(x + begin, of_block, -std::numeric_limits<float>::infinity(),
                    [&](auto v, int64_t i, int64_t) HWY_ATTR {
                      const auto e = narrow_exp(d, hn::Sub(v, m));
                      sums = hn::Add(sums, e);
                      if (keeps) hn::Store(e, d, terms + begin + i);
                    });
      });
  const float sum = static_cast<float>(total);
  const auto factor = hn::Set(d, kLog ? std::log(sum) : 1 / sum);
  if (keeps)
    return map_run<1>({terms}, n, y, [&](const float* const(&p)[1], int64_t i) HWY_ATTR {
      return hn::Mul(hn::LoadU(d, p[0] + i), factor);
    });
  map_run<1>({x}, n, y, [&](const W* const(&p)[1], int64_t i) HWY_ATTR {
    const auto v = hn::Sub(load(d, p[0] + i), m);
    return kLog ? hn::Sub(v, factor) : hn::Mul(narrow_exp(d, v), factor);
  });
}

/// dx may be dy.
template <bool kLog, class W>
void narrow_softmax_grad_row(const W* dy, const W* y, W* dx, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto term = [&](const W* g, const W* v)
                        HWY_ATTR { return kLog ? load(d, g) : hn::Mul(load(d, g), load(d, v)); };
  const double total = sum_in_blocks<float>(n, [&](int64_t i, int64_t count, auto& even) HWY_ATTR {
    const int64_t end = i + count;
    auto odd = hn::Zero(d);
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      even = hn::Add(even, term(dy + i, y + i));
      odd = hn::Add(odd, term(dy + i + lanes, y + i + lanes));
    }
    for (; i < end; i += lanes) {
      const auto g = load_part(d, dy + i, end - i, W(0.0f));
      even = hn::Add(even, kLog ? g : hn::Mul(g, load_part(d, y + i, end - i, W(0.0f))));
    }
    even = hn::Add(even, odd);
  });
  const auto s = hn::Set(d, static_cast<float>(total));
  map_run<2>({dy, y}, n, dx, [&](const W* const(&p)[2], int64_t at) HWY_ATTR {
    const auto g = load(d, p[0] + at), v = load(d, p[1] + at);
    return kLog ? hn::NegMulAdd(s, narrow_exp(d, v), g) : hn::Mul(v, hn::Sub(g, s));
  });
}

/// Up to kColumns columns of (n, inner), of which a row is read at a time.
template <class W>
struct NarrowColumns {
  const W* from;
  int64_t n, inner, width;
  bool fetches;  // rows that are needed soon: of tensors that the caches do not hold

  /// That a pass over these columns has left them in the L1 cache.
  NarrowColumns read_again() const {
    return {from, n, inner, width, fetches && n * kColumns > kTerms};
  }
  /// The row that follows row j by some, here or of the next columns, in a tensor of this shape.
  HWY_INLINE void fetch(const W* tensor, int64_t j) const {
    constexpr int64_t kAhead = 8, kLine = 64 / sizeof(W);
    if (!fetches) return;
    const int64_t next =
        j + kAhead < n ? (j + kAhead) * inner : (j + kAhead - n) * inner + kColumns;
    for (int64_t c = 0; c < width; c += kLine) hwy::Prefetch(tensor + next + c);
  }
  /// body(f32 numbers of the columns, first column) for each vector of row j. Behind the last
  /// column are zeros.
  template <class Body>
  HWY_INLINE void row(int64_t j, const Body& body) const {
    const hn::ScalableTag<float> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const W* const at = from + j * inner;
    fetch(from, j);
    int64_t c = 0;
    for (; c + lanes <= width; c += lanes) body(load(d, at + c), c);
    if (c < width) body(load_part(d, at + c, width - c, W(0.0f)), c);
  }
};

/// Rounds `width` numbers, kColumns at most.
template <class W>
HWY_INLINE void narrow_columns(const float* from, int64_t width, W* to) {
  const hn::ScalableTag<float> d;
  map_run<1>({from}, width, to,
             [&](const float* const(&p)[1], int64_t c) HWY_ATTR { return hn::LoadU(d, p[0] + c); });
}

template <bool kLog, class W>
void narrow_softmax_columns(const W* x, W* y, int64_t n, int64_t inner, int64_t width,
                            bool fetches) {
  const hn::ScalableTag<float> d;
  const NarrowColumns<W> columns{x, n, inner, width, fetches}, again = columns.read_again();
  HWY_ALIGN float largest[kColumns], sum[kColumns], result[kColumns];
  ColumnSums<float> sums;
  HWY_ALIGN float terms[kLog ? 1 : kTerms];
  const bool keeps = !kLog && n * kColumns <= kTerms;
  std::fill_n(largest, kColumns, -std::numeric_limits<float>::infinity());
  for (int64_t j = 0; j < n; ++j)
    columns.row(j, [&](auto v, int64_t c) HWY_ATTR {
      const auto m = hn::Load(d, largest + c);
      hn::Store(hn::IfThenElse(hn::Or(hn::Gt(v, m), hn::IsNaN(v)), v, m), d, largest + c);
    });
  for (int64_t j = 0; j < n; ++j) {
    again.row(j, [&](auto v, int64_t c) HWY_ATTR {
      const auto e = narrow_exp(d, hn::Sub(v, hn::Load(d, largest + c)));
      hn::Store(hn::Add(hn::Load(d, sums.part + c), e), d, sums.part + c);
      if (keeps) hn::Store(e, d, terms + j * kColumns + c);
    });
    sums.end_row();
  }
  sums.write(kColumns, sum);
  if (kLog)
    log_columns(sum, width);
  else
    for (int64_t c = 0; c < width; ++c) sum[c] = 1 / sum[c];
  for (int64_t j = 0; j < n; ++j) {
    columns.fetch(y, j);
    if (keeps) {
      for (int64_t c = 0; c < width; ++c) result[c] = terms[j * kColumns + c] * sum[c];
    } else {
      again.row(j, [&](auto v, int64_t c) HWY_ATTR {
        const auto e = hn::Sub(v, hn::Load(d, largest + c)), s = hn::Load(d, sum + c);
        hn::Store(kLog ? hn::Sub(e, s) : hn::Mul(narrow_exp(d, e), s), d, result + c);
      });
    }
    narrow_columns(result, width, y + j * inner);
  }
}

/// dx may be dy. Of log_softmax, y is read in the second pass alone.
template <bool kLog, class W>
void narrow_softmax_grad_columns(const W* dy, const W* y, W* dx, int64_t n, int64_t inner,
                                 int64_t width, bool fetches) {
  const hn::ScalableTag<float> d;
  const NarrowColumns<W> ups{dy, n, inner, width, fetches}, outs{y, n, inner, width, fetches};
  const NarrowColumns<W> ups_again = ups.read_again(), outs_again = kLog ? outs : outs.read_again();
  HWY_ALIGN float sum[kColumns], up[kColumns];
  ColumnSums<float> sums;
  for (int64_t j = 0; j < n; ++j) {
    ups.row(j, [&](auto g, int64_t c) HWY_ATTR {
      if (kLog)
        hn::Store(hn::Add(hn::Load(d, sums.part + c), g), d, sums.part + c);
      else
        hn::Store(g, d, up + c);
    });
    if (!kLog)
      outs.row(j, [&](auto v, int64_t c) HWY_ATTR {
        const auto part = hn::Load(d, sums.part + c);
        hn::Store(hn::MulAdd(hn::Load(d, up + c), v, part), d, sums.part + c);
      });
    sums.end_row();
  }
  sums.write(kColumns, sum);
  for (int64_t j = 0; j < n; ++j) {
    ups.fetch(dx, j);
    ups_again.row(j, [&](auto g, int64_t c) HWY_ATTR { hn::Store(g, d, up + c); });
    outs_again.row(j, [&](auto v, int64_t c) HWY_ATTR {
      const auto g = hn::Load(d, up + c), s = hn::Load(d, sum + c);
      hn::Store(kLog ? hn::NegMulAdd(s, narrow_exp(d, v), g) : hn::Mul(v, hn::Sub(g, s)), d,
                up + c);
    });
    narrow_columns(up, width, dx + j * inner);
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
