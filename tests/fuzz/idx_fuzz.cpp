// Fuzz target: any bytes as an MNIST folder. Byte 0: which files are packed, and which split they
// are; byte 1: the length of the labels; then the labels' file and the images' file.
#include <brim/core/error.h>
#include <brim/data/source.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brim::data;
  static const brim::tests::TemporaryFolder folder;
  if (size < 2) return 0;
  const std::string split = data[0] & 4 ? "t10k" : "train";
  const std::span<const uint8_t> rest(data + 2, size - 2);
  const size_t labels = std::min<size_t>(data[1], rest.size());
  std::string paths[2] = {folder / (split + "-labels-idx1-ubyte"),
                          folder / (split + "-images-idx3-ubyte")};
  const std::span<const uint8_t> bytes[2] = {rest.first(labels), rest.subspan(labels)};
  for (int k = 0; k < 2; ++k) {
    if (data[0] >> k & 1) paths[k] += ".gz";
    std::ofstream(paths[k], std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes[k].data()),
               static_cast<std::streamsize>(bytes[k].size()));
  }
  try {
    const auto source = Source::open(folder.path(), Split::all);
    const auto classes = static_cast<int64_t>(source->classes().size());
    Image image;
    for (int64_t i = 0; i < source->size(); ++i) {
      if (source->label(i) < 0 || source->label(i) >= classes) __builtin_trap();
      if (i >= 4 && i + 1 < source->size()) continue;  // the first ones and the last
      source->read(i, image);
      if (image.shape() != source->image_shape()) __builtin_trap();
    }
  } catch (const brim::FileError&) {
  }
  for (const std::string& path : paths) std::filesystem::remove(path);
  return 0;
}
