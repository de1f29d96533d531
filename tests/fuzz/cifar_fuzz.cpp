// Fuzz target: any bytes as a CIFAR-10 file. The first byte says how many classes the meta file
// names.
#include <brim/core/error.h>
#include <brim/data/source.h>

#include <cstddef>
#include <cstdint>
#include <fstream>

#include "temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brim::data;
  static const brim::tests::TemporaryFolder folder;
  if (size == 0) return 0;
  std::ofstream(folder / "data_batch_1.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(data + 1), static_cast<std::streamsize>(size - 1));
  {
    std::ofstream meta(folder / "batches.meta.txt");
    for (int i = 0; i < data[0]; ++i) meta << i << '\n';
  }
  try {
    const auto source = Source::open(folder.path(), Split::train);
    Image image;
    for (int64_t i = 0; i < source->size(); ++i) {
      source->read(i, image);
      if (source->label(i) >= static_cast<int64_t>(source->classes().size())) __builtin_trap();
      if (source->view(i).at(1, 2, 3) != image.pixels[(2 * 32 + 3) * 3 + 1]) __builtin_trap();
    }
  } catch (const brim::FileError&) {
  }
  return 0;
}
