// The register tile that convolutions over nhwc tensors spend their time in: rows (pixels, tiles or
// input channels) x vectors of output channels, over a depth. Include it inside a foreach_target
// file only.
#if defined(BRIM_CONV_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CONV_TILE_INL_H_
#undef BRIM_CONV_TILE_INL_H_
#else
#define BRIM_CONV_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using TagF = hn::CappedTag<float, 16>;  // the channels of a block
using VecF = hn::Vec<TagF>;

// kTileRows x kTileVecs accumulators out of 16 or 32 registers.
#if HWY_TARGET <= HWY_AVX3
constexpr int kTileRows = 6, kTileVecs = 4;
#else
constexpr int kTileRows = 6, kTileVecs = 2;
#endif
constexpr int64_t kTileDepth = 256;  // of the sum per pass: a panel of it stays in the cache

inline int64_t lanes_f32() { return static_cast<int64_t>(hn::Lanes(TagF())); }

/// Output channels that one panel of weights holds; the last panel may hold fewer.
inline int64_t panel_width() { return kTileVecs * lanes_f32(); }

/// Element (row i, depth p) of the left side is at data[i * row + p * col].
struct Left {
  const float* data;
  int64_t row, col;
};

/// R rows of c, `ldc` apart, and V vectors = (or +=) sum over p of a(r, p) * b[p * ldb + ...].
template <int R, int V>
HWY_INLINE void conv_tile(int64_t depth, Left a, const float* HWY_RESTRICT b, int64_t ldb, bool add,
                          float* HWY_RESTRICT c, int64_t ldc) {
  const TagF d;
  const int64_t lanes = lanes_f32();
  VecF acc[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) acc[r][v] = hn::Zero(d);
  const float* HWY_RESTRICT from = a.data;
  for (int64_t p = 0; p < depth; ++p, from += a.col, b += ldb) {
    VecF x[V];
    for (int v = 0; v < V; ++v) x[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < R; ++r) {
      const VecF w = hn::Set(d, from[r * a.row]);
      for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(w, x[v], acc[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) {
      float* to = c + r * ldc + v * lanes;
      hn::StoreU(add ? hn::Add(acc[r][v], hn::LoadU(d, to)) : acc[r][v], d, to);
    }
}

template <int V>
HWY_INLINE void conv_tile_rows(int64_t rows, int64_t depth, Left a, const float* b, int64_t ldb,
                               bool add, float* c, int64_t ldc) {
  for (; rows >= kTileRows; rows -= kTileRows, a.data += kTileRows * a.row, c += kTileRows * ldc)
    conv_tile<kTileRows, V>(depth, a, b, ldb, add, c, ldc);
  switch (rows) {
    case 5:
      return conv_tile<5, V>(depth, a, b, ldb, add, c, ldc);
    case 4:
      return conv_tile<4, V>(depth, a, b, ldb, add, c, ldc);
    case 3:
      return conv_tile<3, V>(depth, a, b, ldb, add, c, ldc);
    case 2:
      return conv_tile<2, V>(depth, a, b, ldb, add, c, ldc);
    case 1:
      return conv_tile<1, V>(depth, a, b, ldb, add, c, ldc);
    default:
      return;
  }
}

/// `rows` rows of c, `ldc` apart, = (or +=) a b: `width` columns, at most panel_width() and a
/// multiple of the vector's length; b's rows lie `ldb` apart.
inline void conv_panel(int64_t rows, int64_t depth, Left a, const float* b, int64_t ldb,
                       int64_t width, bool add, float* c, int64_t ldc) {
  const int64_t lanes = lanes_f32(), vecs = width / lanes;
  for (int64_t p = 0; p < depth || p == 0; p += kTileDepth) {
    const int64_t part = std::min(kTileDepth, depth - p);
    const Left from{a.data + p * a.col, a.row, a.col};
    const float* panel = b + p * ldb;
    const bool more = add || p > 0;
    if (vecs == kTileVecs)
      conv_tile_rows<kTileVecs>(rows, part, from, panel, ldb, more, c, ldc);
    else
      for (int64_t v = 0; v < vecs; ++v)
        conv_tile_rows<1>(rows, part, from, panel + v * lanes, ldb, more, c + v * lanes, ldc);
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
