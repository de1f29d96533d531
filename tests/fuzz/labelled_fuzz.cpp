// Fuzz target: any bytes as the table of a folder of pictures. Byte 0: targets and split.
#include <brim/core/error.h>
#include <brim/data/pictures.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "data/image/decode.h"
#include "temporary_folder.h"

namespace {

void write(const std::string& path, const uint8_t* data, size_t size) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
}

/// With the picture a.png in it.
struct Folder : brim::tests::TemporaryFolder {
  Folder() {
    const auto png = brim::data::encode_png({2, 1, 3, {1, 2, 3, 4, 5, 6}});
    write(*this / "a.png", png.data(), png.size());
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brim::data;
  static const Folder folder;
  if (size < 1) return 0;
  write(folder / "labels.csv", data + 1, size - 1);
  const bool labels = (data[0] & 1) != 0;
  const auto split = static_cast<Split>((data[0] >> 1) % 3);
  try {
    const auto set =
        open_labelled(folder / "", split, labels ? Targets::multi_label : Targets::regression);
    Sample sample;
    for (int64_t i = 0; i < set->size() && i < 20; ++i) {
      try {
        set->get(i, sample);
        const auto y = sample["y"].values<float>();
        if (y.size() != set->names().size()) __builtin_trap();
        for (const float v : y)
          if (labels ? v != 0 && v != 1 : !std::isfinite(v)) __builtin_trap();
      } catch (const brim::FileError&) {  // labels.csv is a file, too, but no picture
      }
    }
  } catch (const brim::FileError&) {
  }
  return 0;
}
