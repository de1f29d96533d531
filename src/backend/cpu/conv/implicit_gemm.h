// Convolutions as products of rows that are never written down: a row is the corner of what the
// kernel covers in a padded image with its channels last, and an input is at a fixed offset from
// it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/conv/image_formats.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"
#include "backend/options/geometry.h"

namespace brim::cpu {

constexpr int64_t kRowBlock =
    48;  // rows that share what a cache holds of x; of all tiles a multiple
constexpr int64_t kRowGrain = int64_t{1} << 18;  // multiply-adds worth a thread

/// Images with their padding, channels last; `channels`: g.c, or more, of which the rest is
/// padding.
struct PaddedImages {
  const backend::ConvGeometry& g;
  int64_t channels;

  int64_t height() const { return g.h + 2 * g.padding.h; }
  int64_t width() const { return g.w + 2 * g.padding.w; }
  int64_t size() const { return height() * width() * channels; }

  /// Where `count` rows of all images begin, from row `first` on: the corners of what the kernel
  /// covers.
  void operator()(int64_t first, int64_t count, int64_t* to) const {
    const int64_t pixels = g.oh * g.ow, at = first % pixels;
    const int64_t right = g.stride.w * channels, down = g.stride.h * width() * channels;
    int64_t n = first / pixels, y = at / g.ow, x = at % g.ow;
    for (int64_t r = 0; r < count; ++r) {
      to[r] = n * size() + y * down + x * right;
      if (++x < g.ow) continue;
      x = 0;
      if (++y < g.oh) continue;
      y = 0, ++n;
    }
  }
  /// Of an input from there: tap of kh x kw, and channel.
  int64_t offset(int64_t tap, int64_t channel) const {
    return (tap / g.kw * g.dilation.h * width() + tap % g.kw * g.dilation.w) * channels + channel;
  }

  template <class From, class To>
  void fill(const From* images, bool is_nhwc, To padding, To* to) const {
    const int64_t grain = std::max<int64_t>(1, kRowGrain / std::max<int64_t>(size(), 1));
    parallel_for(g.n, grain, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        fill_one(images + n * g.c * g.h * g.w, is_nhwc, padding, to + n * size());
    });
  }

 private:
  template <class From, class To>
  void fill_one(const From* image, bool is_nhwc, To padding, To* to) const {
    if (g.padding != 0 || channels != g.c) std::fill_n(to, size(), padding);
    for (int64_t y = 0; y < g.h; ++y) {
      To* row = to + ((y + g.padding.h) * width() + g.padding.w) * channels;
      if (is_nhwc && channels == g.c) {
        std::copy_n(image + y * g.w * g.c, g.w * g.c, row);
      } else if (is_nhwc && g.c == 3) {  // pictures
        const From* const colours = image + y * g.w * 3;
        for (int64_t x = 0; x < g.w; ++x)
          for (int64_t c = 0; c < 3; ++c)
            row[x * channels + c] = static_cast<To>(colours[x * 3 + c]);
      } else if (is_nhwc) {
        for (int64_t x = 0; x < g.w; ++x)
          std::copy_n(image + (y * g.w + x) * g.c, g.c, row + x * channels);
      } else {
        for (int64_t c = 0; c < g.c; ++c)
          for (int64_t x = 0; x < g.w; ++x)
            row[x * channels + c] = static_cast<To>(image[(c * g.h + y) * g.w + x]);
      }
    }
  }
};

/// Some rows times the outputs of a group.
struct RowBlock {
  int64_t first, count;
  const int64_t* rows;  ///< elements from x
  int64_t group;
  char* scratch;
};

/// Rows of `width` elements, one after the other: for for_row_blocks().
struct RowsOf {
  int64_t width;
  void operator()(int64_t first, int64_t count, int64_t* to) const {
    for (int64_t r = 0; r < count; ++r) to[r] = (first + r) * width;
  }
};

/// Calls body(RowBlock) for all blocks of rows and all groups, in parallel, where find_rows(first,
/// count, to) says where rows begin. `work`: multiply-adds of a row and a group; `bytes` of scratch
/// for each call, aligned to 64.
template <class FindRows, class Body>
void for_row_blocks(const Context& context, int64_t rows, int64_t groups, int64_t work,
                    size_t bytes, const FindRows& find_rows, const Body& body) {
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock, units = blocks * groups;
  const int64_t of_unit = std::min(rows, kRowBlock) * std::max<int64_t>(work, 1);
  const int64_t grain = std::max<int64_t>(1, kRowGrain / std::max<int64_t>(of_unit, 1));
  constexpr size_t kRows = static_cast<size_t>(kRowBlock) * sizeof(int64_t);
  static_assert(kRows % 64 == 0);
  const PartScratch scratch(context, units, grain, kRows + bytes);
  parallel_for(units, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    auto* const at = slot.as<int64_t>();
    int64_t known = -1;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t block = u / groups, first = block * kRowBlock;
      const int64_t count = std::min(kRowBlock, rows - first);
      if (block != known) find_rows(first, count, at);
      known = block;
      body(RowBlock{first, count, at, u % groups, slot.as<char>() + kRows});
    }
  });
}

/// Outputs of some rows, on their way to where they belong.
template <class T>
struct RowResults {
  const T* from;
  int64_t step;          ///< from row to row
  int64_t first, count;  ///< rows
  int64_t output, used;  ///< the first output, and how many there are
  const int32_t* order =
      nullptr;  ///< which outputs they are instead of the neighbours of the first

  int64_t output_at(int64_t i) const { return order ? order[i] : output + i; }
};

/// Into rows of y that are `outputs` long.
template <class T>
void copy_rows(const RowResults<T>& r, T* y, int64_t outputs) {
  for (int64_t row = 0; row < r.count; ++row) {
    const T* const from = r.from + row * r.step;
    T* const to = y + (r.first + row) * outputs;
    if (r.order)
      for (int64_t i = 0; i < r.used; ++i) to[r.order[i]] = from[i];
    else
      std::copy_n(from, r.used, to + r.output);
  }
}

/// Into images; a row is an image's pixel.
template <class T>
void copy_to_images(const RowResults<T>& r, bool is_nhwc, const backend::ConvGeometry& g, T* y) {
  if (is_nhwc) return copy_rows(r, y, g.o);
  const int64_t pixels = g.oh * g.ow;
  for (int64_t row = 0; row < r.count; ++row) {
    const int64_t n = (r.first + row) / pixels, at = (r.first + row) % pixels;
    T* const image = y + n * g.o * pixels + at;
    for (int64_t i = 0; i < r.used; ++i) image[r.output_at(i) * pixels] = r.from[row * r.step + i];
  }
}

}  // namespace brim::cpu
