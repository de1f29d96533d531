// Small folders of pictures with masks and with tables, for tests.
#pragma once

#include <string>
#include <vector>

#include "data/png_writer.h"
#include "data/scratch.h"

namespace brim::data::tests {

inline void write_text(const std::string& path, const std::string& text) {
  write_bytes(path, {text.begin(), text.end()});
}

/// A grey mask of width x height whose values are `seed` + column + row modulo `classes`, but 255
/// at the corner.
inline std::vector<uint8_t> mask_png(int width, int height, int classes, int seed) {
  std::vector<uint16_t> values;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      values.push_back(static_cast<uint16_t>((seed + x + y) % classes));
  values[0] = 255;
  return png_of(values, width, height, PNG_COLOR_TYPE_GRAY, 8);
}

/// `count` RGB pictures of width x height below `folder`/images, with masks of three classes.
inline void write_masked(const std::string& folder, int count, int width, int height) {
  for (int i = 0; i < count; ++i) {
    const std::string name = "/p" + std::to_string(100 + i);
    write_bytes(folder + "/images" + name + ".png",
                encode_png(gradient(width, height, 3, i), width, height, 3));
    write_bytes(folder + "/masks" + name + ".png", mask_png(width, height, 3, i));
  }
}

/// `count` grey pictures of 16 bits, 7 x 6 pixels, with two targets in a table.
inline void write_labelled(const std::string& folder, int count) {
  std::string table = "file,left,right\n";
  for (int i = 0; i < count; ++i) {
    const std::string file = "scans/" + std::to_string(100 + i) + ".png";
    std::vector<uint16_t> samples;
    for (int p = 0; p < 42; ++p) samples.push_back(static_cast<uint16_t>(p * 1500 + i));
    write_bytes(folder + "/" + file, png_of(samples, 7, 6, PNG_COLOR_TYPE_GRAY, 16));
    table += file + "," + std::to_string(i % 2) + "," + std::to_string(i / 2 % 2) + "\n";
  }
  write_text(folder + "/labels.csv", table);
}

}  // namespace brim::data::tests
