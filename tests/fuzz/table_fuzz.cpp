// Fuzz target: any bytes as a table. Byte 0: a CSV file and its options, .npy, .npz or tokens.
#include <brim/core/error.h>
#include <brim/data/tables.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "temporary_folder.h"

namespace {

using namespace brim::data;

DatasetPtr open_as(uint8_t how, const std::string& path) {
  const bool has_target = (how & 4) != 0;
  switch (how & 3) {
    case 0:
      return open_csv(path, {.has_target = has_target,
                             .target = static_cast<Target>(has_target ? (how >> 3 & 3) % 3 : 0),
                             .delimiter = how & 32 ? ';' : ',',
                             .header = (how & 64) != 0});
    case 1:
      return open_npy(path);
    case 2:
      return open_npz(path);
    default:
      return open_tokens(path, {.window = 1 + (how >> 2 & 7),
                                .stride = how >> 5 & 1,
                                .dtype = how & 64 ? brim::DType::i32 : brim::DType::u8,
                                .vocabulary = how & 128 ? 100 : 0});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const brim::tests::TemporaryFolder folder;
  if (size < 1) return 0;
  const std::string path = folder / "table";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data + 1), static_cast<std::streamsize>(size - 1));
  try {
    const DatasetPtr table = open_as(data[0], path);
    Sample sample;
    for (int64_t i = 0; i < table->size(); ++i) {
      if (i >= 20 && i + 1 < table->size()) continue;  // the first ones and the last
      try {
        table->get(i, sample);
        if (sample.fields().empty()) __builtin_trap();
      } catch (const brim::FileError&) {
      }
    }
  } catch (const brim::FileError&) {
  }
  return 0;
}
