// A picture at a time: its rows at their new width, then rows of those as one of the result, whose
// bytes are looked up.
#include "rt/kernels/picture.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/picture.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formula/resample_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

void picture_rows_across(const uint8_t* from, int64_t pitch, const formula::Taps* taps,
                         const int32_t* weights, int stride, int width, uint8_t* to,
                         int64_t to_pitch) {
  formula::HWY_NAMESPACE::across(from, pitch, taps, weights, stride, width, to, to_pitch);
}

void picture_rows_down(const uint8_t* rows, int64_t pitch, int count, const int32_t* weights,
                       int64_t bytes, uint8_t* to) {
  formula::HWY_NAMESPACE::down(rows, pitch, count, weights, bytes, to);
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace brim::rt {

BRIM_RT_ISA_TABLE(picture_rows_across);
BRIM_RT_ISA_TABLE(picture_rows_down);

namespace {

formula::Taps taps_of(const PictureAxis& axis, int64_t i) {
  const auto word = static_cast<uint64_t>(axis.words[i]);
  return {static_cast<int>(word & 0xffffffff), static_cast<int>(word >> 32)};
}

/// Where prepare_pictures() keeps what.
struct PictureScratch {
  size_t taps = 0, rows = 0, lines = 0, bytes = 0;
  int64_t pitch;  // of rows: vectors write a byte behind one
  int64_t line;   // of a result's bytes

  PictureScratch(const Pictures& p, int threads)
      : pitch(p.columns.out * p.c + 1), line(p.columns.out * p.c) {
    if (!p.is_resampled) return;
    rows = static_cast<size_t>(p.columns.out) * sizeof(formula::Taps);
    lines = rows + static_cast<size_t>(p.rows.in * pitch);
    bytes = lines + static_cast<size_t>(line) * static_cast<size_t>(threads);
  }
};

/// A row of any number of channels.
void row_across(const Pictures& p, const uint8_t* row, const formula::Taps* taps, uint8_t* to) {
  for (int64_t x = 0; x < p.columns.out; ++x) {
    const int32_t* const weights = p.columns.weights + x * p.columns.max_taps;
    for (int64_t c = 0; c < p.c; ++c) {
      uint32_t sum = uint32_t{1} << (formula::kWeightBits - 1);
      for (int k = 0; k < taps[x].count; ++k)
        sum += row[(taps[x].first + k) * p.c + c] * static_cast<uint32_t>(weights[k]);
      *to++ = static_cast<uint8_t>(
          std::clamp(static_cast<int32_t>(sum) >> formula::kWeightBits, 0, 255));
    }
  }
}

void look_up(const Pictures& p, const uint8_t* row, float* y) {
  for (int64_t x = 0; x < p.columns.out; ++x, row += p.c, y += p.c)
    for (int64_t c = 0; c < p.c; ++c)
      y[c] = p.table[c * 256 + row[p.is_reversed ? p.c - 1 - c : c]];
}

}  // namespace

size_t picture_scratch(const Pictures& pictures, int threads) {
  return PictureScratch(pictures, threads).bytes;
}

void prepare_pictures(Isa isa, const Pictures& p, const Threads& threads, void* scratch) {
  constexpr int64_t kWorth = int64_t{1} << 15;  // bytes that are worth a thread
  const PictureScratch at(p, threads.count());
  const int64_t row_bytes = p.columns.in * p.c;
  if (!p.is_resampled) {
    parallel_parts(threads, p.n * p.rows.in, kWorth / row_bytes + 1,
                   [&](int64_t, int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i)
                       look_up(p, p.x + i * row_bytes, p.y + i * row_bytes);
                   });
    return;
  }
  char* const block = static_cast<char*>(scratch);
  auto* const taps = reinterpret_cast<formula::Taps*>(block + at.taps);
  auto* const rows = reinterpret_cast<uint8_t*>(block + at.rows);
  auto* const lines = reinterpret_cast<uint8_t*>(block + at.lines);
  for (int64_t i = 0; i < p.columns.out; ++i) taps[i] = taps_of(p.columns, i);
  int64_t top = p.rows.in, bottom = 0;  // the rows that the result is made of
  for (int64_t i = 0; i < p.rows.out; ++i) {
    const formula::Taps t = taps_of(p.rows, i);
    top = std::min<int64_t>(top, t.first);
    bottom = std::max<int64_t>(bottom, t.first + t.count);
  }
  const auto across = picture_rows_across_table.of(isa);
  const auto down = picture_rows_down_table.of(isa);
  for (int64_t image = 0; image < p.n; ++image) {
    const uint8_t* const x = p.x + image * p.rows.in * row_bytes;
    float* const y = p.y + image * p.rows.out * at.line;
    const auto shrink = [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = top + begin; i < top + end; ++i) {
        uint8_t* const to = rows + i * at.pitch;
        // Vectors read a byte behind a row: the last one goes without them.
        if (p.c == 3 && i + 1 < top + end && i + 2 < p.rows.in) {
          across(x + i * row_bytes, row_bytes, taps, p.columns.weights,
                 static_cast<int>(p.columns.max_taps), static_cast<int>(p.columns.out), to,
                 at.pitch);
          ++i;  // two at a time
        } else {
          row_across(p, x + i * row_bytes, taps, to);
        }
      }
    };
    parallel_parts(threads, bottom - top, kWorth / row_bytes + 1, shrink);
    const auto finish = [&](int64_t part, int64_t begin, int64_t end) {
      uint8_t* const line = lines + part * at.line;
      for (int64_t i = begin; i < end; ++i) {
        const formula::Taps t = taps_of(p.rows, i);
        down(rows + t.first * at.pitch, at.pitch, t.count, p.rows.weights + i * p.rows.max_taps,
             at.line, line);
        look_up(p, line, y + i * at.line);
      }
    };
    parallel_parts(threads, p.rows.out, kWorth / at.line + 1, finish);
  }
}

}  // namespace brim::rt
#endif
