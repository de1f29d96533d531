// Fuzz target: any bytes as a .pth file. What the checksums of a zip hide from mutation is reached
// by giving the bytes to the pickle machine as well. Opening and reading works or throws FileError.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <brim/io/pth.h>

#include "io/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const brim::io::Pth file({data, size}, "fuzz");
    for (const std::string& name : file.names())
      if (file.info(name).dtype) (void)file.load(name).contiguous();
  } catch (const brim::FileError&) {
  }
  try {
    const auto state = brim::io::parse_pickle({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const auto& tensor : state.tensors)
      if (tensor.storage >= state.storages.size()) __builtin_trap();
  } catch (const brim::FileError&) {
  }
  return 0;
}
