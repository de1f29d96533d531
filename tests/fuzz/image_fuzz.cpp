// Fuzz target: any bytes as a picture. The limit on pixels keeps an input's cost small.
#include <brim/core/error.h>
#include <brim/data/image.h>

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static thread_local brim::data::Image image;
  try {
    brim::data::decode_image({data, size}, "fuzz", image, 1 << 16);
  } catch (const brim::FileError&) {
  }
  return 0;
}
