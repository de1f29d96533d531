// The gradient of pooling is sparse: only the windows' largest elements, where relu let them
// through, carry any. Lists of such elements, and the products over them (see
// kernels/conv_pool_grad.cpp); included once per instruction set.
#include <cstdint>

#include "backend/cpu/conv/conv_pool_copy-inl.h"
#include "backend/cpu/conv/image_layout.h"
#include "backend/fused/fused_conv.h"

#if defined(BRIM_CPU_CONV_POOL_GRAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CPU_CONV_POOL_GRAD_INL_H
#undef BRIM_CPU_CONV_POOL_GRAD_INL_H
#else
#define BRIM_CPU_CONV_POOL_GRAD_INL_H
#endif

// Sums stay in registers only where the loops over them are gone before the compiler looks.
#undef BRIM_UNROLL
#define BRIM_UNROLL HWY_UNROLL(24)

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
constexpr int64_t kLanes = hn::MaxLanes(F32());

#if HWY_TARGET <= HWY_AVX3
constexpr int kMaxSums = 20;  // vectors in registers
#else
constexpr int kMaxSums = 12;
#endif
constexpr int kMaxVectors = 4;
constexpr int rows_of(int vectors) { return std::min(8, kMaxSums / vectors); }

/// What one output element of a convolution reads of a channel-last image: `outer` times `rows`
/// runs of `length` neighbouring numbers. Weights in this order have their runs padded to vectors.
struct Runs {
  bool whole_rows;  // a row of the kernel is one run; else a pixel is
  int64_t channels, kw;
  int64_t outer, rows, length;
  int64_t outer_step, row_step;  // in the image
  int64_t vectors;               // of a run
  int64_t width, height;         // vectors and rows of a block of sums that fits the registers

  Runs(const backend::ConvGeometry& g, const ChannelLast& image)
      : whole_rows(g.dilation.w == 1),
        channels(image.channels),
        kw(g.kw),
        outer(whole_rows ? 1 : g.kh),
        rows(whole_rows ? g.kh : g.kw),
        length(whole_rows ? g.kw * channels : channels),
        outer_step(g.dilation.h * image.row()),
        row_step(whole_rows ? outer_step : g.dilation.w * channels),
        vectors(ceil_div(length, kLanes)),
        width(blocks_of(vectors, kMaxVectors)),
        height(blocks_of(rows, rows_of(static_cast<int>(width)))) {}

  int64_t size() const { return outer * rows * vectors * kLanes; }
  /// Where weight (c, ky, kx) lies.
  int64_t offset(int64_t c, int64_t ky, int64_t kx) const {
    return whole_rows ? ky * vectors * kLanes + kx * channels + c
                      : (ky * kw + kx) * vectors * kLanes + c;
  }

 private:
  /// The size of equal blocks, at most `most`, that `count` is cut into.
  static int64_t blocks_of(int64_t count, int64_t most) {
    return ceil_div(count, std::max<int64_t>(1, ceil_div(count, most)));
  }
};

/// Where the windows' elements lie in the image, from their number in the window.
struct Positions {
  int32_t kernel_w, numbers;
  int32_t row, column;  // steps between elements of a window, in the image
  int32_t reciprocal;   // of kernel_w, times 2^16; exact for numbers below 256

  template <class V>
  HWY_INLINE V operator()(V base, V number) const {
    const I32 di;
    const V y = hn::ShiftRight<16>(hn::Mul(number, hn::Set(di, reciprocal)));
    const V along = hn::Mul(number, hn::Set(di, column));
    return hn::Add(hn::Add(base, along), hn::Mul(y, hn::Set(di, row - kernel_w * column)));
  }
  int32_t operator()(int32_t number) const {
    return number / kernel_w * row + number % kernel_w * column;
  }
};

/// The live elements of some windows of one plane.
struct LiveList {
  float* values;       // gradients
  int32_t* offsets;    // of what they read
  int32_t* positions;  // window * (elements of a window) + number
  int64_t count = 0;
  float sum = 0;
};

#if HWY_TARGET == HWY_AVX2
/// For each mask of eight lanes, the lanes that are set.
struct LanesOfMasks {
  alignas(64) uint8_t lanes[256][8] = {};

  constexpr LanesOfMasks() {
    for (int mask = 0; mask < 256; ++mask)
      for (int lane = 0, at = 0; lane < 8; ++lane)
        if (mask >> lane & 1) lanes[mask][at++] = static_cast<uint8_t>(lane);
  }
};
constexpr LanesOfMasks kLanesOfMasks;
#endif

/// Moves the lanes of a mask to the front of vectors.
class Compression {
 public:
  HWY_INLINE explicit Compression(hn::Mask<F32> live) : live_(live) {
#if HWY_TARGET == HWY_AVX2
    hn::StoreMaskBits(F32(), live, bits_);
#endif
  }

  HWY_INLINE int64_t count() const { return static_cast<int64_t>(hn::CountTrue(F32(), live_)); }

  template <class V>
  HWY_INLINE V operator()(V v) const {
    const hn::DFromV<V> d;
#if HWY_TARGET == HWY_AVX2  // where Highway 1.0.3 copies its table to the stack with each call
    const hn::Rebind<uint8_t, F32> d8;
    const auto lanes = hn::PromoteTo(I32(), hn::Load(d8, kLanesOfMasks.lanes[bits_[0]]));
    return hn::TableLookupLanes(v, hn::IndicesFromVec(d, lanes));
#else
    return hn::Compress(v, hn::RebindMask(d, live_));
#endif
  }

 private:
  hn::Mask<F32> live_;
#if HWY_TARGET == HWY_AVX2
  uint8_t bits_[8];  // as many may be written
#endif
};

/// Fills `list` from dy and marks of `count` windows; `base`: where each window starts, for whole
/// vectors. From dy and marks, too, `readable` numbers may be read.
inline void list_live(const float* dy, const uint8_t* marks, const int32_t* base, int64_t count,
                      int64_t readable, const Positions& positions, LiveList& list) {
  const F32 d;
  const I32 di;
  const hn::Rebind<uint8_t, F32> d8;
  const auto ascending = hn::Iota(di, 0);
  auto sum = hn::Zero(d);
  const auto append = [&](const float* g, const uint8_t* m, int64_t i) HWY_ATTR {
    const auto number = hn::PromoteTo(di, hn::LoadU(d8, m));
    const auto value = hn::LoadU(d, g);
    auto live = hn::And(hn::RebindMask(d, hn::Ne(number, hn::Set(di, backend::kNoIndex))),
                        hn::Not(hn::Eq(value, hn::Zero(d))));  // NaN is live
    if (count - i < kLanes) live = hn::And(live, hn::FirstN(d, static_cast<size_t>(count - i)));
    sum = hn::Add(sum, hn::IfThenElseZero(live, value));
    const auto at = positions(hn::LoadU(di, base + i), number);
    const auto window = hn::Add(hn::Set(di, static_cast<int32_t>(i)), ascending);
    const auto position = hn::Add(hn::Mul(window, hn::Set(di, positions.numbers)), number);
    const Compression to_front(live);
    hn::StoreU(to_front(value), d, list.values + list.count);
    hn::StoreU(to_front(at), di, list.offsets + list.count);
    hn::StoreU(to_front(position), di, list.positions + list.count);
    list.count += to_front.count();
  };
  list.count = 0;
  int64_t i = 0;
  for (; i < count && i + kLanes <= readable; i += kLanes) append(dy + i, marks + i, i);
  if (i < count) {
    float g[kLanes] = {};
    uint8_t m[kLanes] = {};
    std::copy_n(dy + i, count - i, g);
    std::copy_n(marks + i, count - i, m);
    append(g, m, i);
  }
  list.sum = hn::GetLane(hn::SumOfLanes(d, sum));
}

/// weights += sum over a list of value * what the element reads.
struct WeightSums {
  const LiveList& list;
  const float* image;
  int64_t row_step, run_size;
  float* weights;

  template <int V, int R>
  void run() const {
    const F32 d;
    hn::Vec<F32> acc[R * V];
    BRIM_UNROLL
    for (int i = 0; i < R * V; ++i)
      acc[i] = hn::LoadU(d, weights + i / V * run_size + i % V * kLanes);
    for (int64_t e = 0; e < list.count; ++e) {
      const auto g = hn::Set(d, list.values[e]);
      const float* HWY_RESTRICT x = image + list.offsets[e];
      BRIM_UNROLL
      for (int i = 0; i < R * V; ++i)
        acc[i] = hn::MulAdd(g, hn::LoadU(d, x + i / V * row_step + i % V * kLanes), acc[i]);
    }
    BRIM_UNROLL
    for (int i = 0; i < R * V; ++i)
      hn::StoreU(acc[i], d, weights + i / V * run_size + i % V * kLanes);
  }
  WeightSums at(int64_t image_offset, int64_t weight_offset) const {
    return {list, image + image_offset, row_step, run_size, weights + weight_offset};
  }
};

/// Live elements of a band of windows by position: all output channels whose gradient goes to the
/// same pixels share what they read and write there.
struct Groups {
  float* values;       // (positions, channels), from the front of each position's
  int32_t* weights;    // beside values: where the channel's weights start
  int32_t* counts;     // of each position
  int32_t* positions;  // those that are not empty
  int32_t* offsets;    // where they start in the image
  int64_t channels;
  int64_t count;  // of positions

  /// Adds a channel's elements; `first`: where its weights start.
  void add(const LiveList& list, int32_t first) const {
    for (int64_t e = 0; e < list.count; ++e) {
      const int64_t position = list.positions[e], at = position * channels + counts[position]++;
      values[at] = list.values[e];
      weights[at] = first;
    }
  }

  /// Lists the positions that are not empty, of `rows` of `columns` windows that start at `base`;
  /// `element`: where a window's elements lie. Positions with as many channels follow each other,
  /// so that the loop over them ends where the processor expects it. Among those, neighbours lie
  /// whole rows apart: what they write to overlaps not at all or as whole vectors, which the next
  /// one can load while they are still on their way to the cache.
  void list_positions(const int32_t* base, int64_t rows, int64_t columns, const int32_t* element,
                      int64_t numbers) {
    constexpr int32_t kMax = 8;  // counts from here on are not told apart
    int64_t next[kMax + 1] = {};
    for (int64_t position = 0; position < rows * columns * numbers; ++position)
      ++next[std::min(counts[position], kMax)];
    count = 0;
    for (int32_t most = 1; most <= kMax; ++most) {
      count += next[most];
      next[most] = count - next[most];
    }
    next[0] = count;  // the empty ones stand behind the list
    for (int64_t number = 0; number < numbers; ++number)
      for (int64_t x = 0; x < columns; ++x)
        for (int64_t y = 0; y < rows; ++y) {
          const int64_t window = y * columns + x, position = window * numbers + number;
          const int64_t at = next[std::min(counts[position], kMax)]++;
          positions[at] = static_cast<int32_t>(position);
          offsets[at] = base[window] + element[number];
        }
  }
};

/// image += for each group, the sum over its channels of value * weights.
struct ImageSums {
  const Groups& groups;
  const float* weights;
  int64_t row_step, run_size;
  float* image;

  template <int V, int R>
  void run() const {
    const F32 d;
    // Copies, because the compiler cannot know that stores to the image leave the members alone.
    const Groups from = groups;
    const int64_t row = row_step, run = run_size;
    const float* HWY_RESTRICT const all = weights;
    float* HWY_RESTRICT const out = image;
    for (int64_t group = 0; group < from.count; ++group) {
      hn::Vec<F32> acc[R * V];
      BRIM_UNROLL
      for (int i = 0; i < R * V; ++i) acc[i] = hn::Zero(d);
      const int64_t position = from.positions[group], first = position * from.channels;
      for (int64_t e = first; e < first + from.counts[position]; ++e) {
        const auto g = hn::Set(d, from.values[e]);
        const float* HWY_RESTRICT w = all + from.weights[e];
        BRIM_UNROLL
        for (int i = 0; i < R * V; ++i)
          acc[i] = hn::MulAdd(g, hn::LoadU(d, w + i / V * run + i % V * kLanes), acc[i]);
      }
      float* HWY_RESTRICT to = out + from.offsets[group];
      BRIM_UNROLL
      for (int i = 0; i < R * V; ++i) {
        float* HWY_RESTRICT at = to + i / V * row + i % V * kLanes;
        hn::StoreU(hn::Add(hn::LoadU(d, at), acc[i]), d, at);
      }
    }
  }
  ImageSums at(int64_t image_offset, int64_t weight_offset) const {
    return {groups, weights + weight_offset, row_step, run_size, image + image_offset};
  }
};

template <class Sums, int V, int R = 1>
void run_rows(int64_t rows, const Sums& sums) {
  if constexpr (R < rows_of(V))
    if (rows > R) return run_rows<Sums, V, R + 1>(rows, sums);
  sums.template run<V, R>();
}

template <class Sums, int V = 1>
void run_block(int64_t vectors, int64_t rows, const Sums& sums) {
  if constexpr (V < kMaxVectors)
    if (vectors > V) return run_block<Sums, V + 1>(vectors, rows, sums);
  run_rows<Sums, V>(rows, sums);
}

/// Runs the product in blocks of rows and vectors that fit the registers.
template <class Sums>
void run_blocks(const Runs& runs, const Sums& sums) {
  for (int64_t outer = 0; outer < runs.outer; ++outer)
    for (int64_t row = 0; row < runs.rows; row += runs.height)
      for (int64_t v = 0; v < runs.vectors; v += runs.width)
        run_block(std::min(runs.width, runs.vectors - v), std::min(runs.height, runs.rows - row),
                  sums.at(outer * runs.outer_step + row * runs.row_step + v * kLanes,
                          ((outer * runs.rows + row) * runs.vectors + v) * kLanes));
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
