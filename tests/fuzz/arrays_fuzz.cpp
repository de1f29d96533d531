// Fuzz target: any bytes as a safetensors file of pictures and labels.
#include <brim/core/error.h>
#include <brim/data/source.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brim::data;
  static const brim::tests::TemporaryFolder folder;
  static const std::string file = folder / "arrays";
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const auto source = open_arrays(file, Split::all);
    const auto classes = static_cast<int64_t>(source->classes().size());
    Image image;
    for (int64_t i = 0; i < source->size(); ++i) {
      if (source->label(i) < 0 || source->label(i) >= classes) __builtin_trap();
      if (i >= 4 && i + 1 < source->size()) continue;  // the first ones and the last
      source->read(i, image);
      if (source->image_shape().channels != 0 && image.shape() != source->image_shape())
        __builtin_trap();
    }
  } catch (const brim::FileError&) {
  }
  return 0;
}
