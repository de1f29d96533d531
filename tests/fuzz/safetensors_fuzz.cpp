// A safetensors file in memory: opening and reading it either works or throws FileError.
#include <cstddef>
#include <cstdint>

#include <brim/io/safetensors.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const brim::io::SafeTensors file({data, size}, "fuzz");
    for (const std::string& name : file.names())
      if (file.info(name).dtype) (void)file.load(name);
  } catch (const brim::FileError&) {
  }
  return 0;
}
