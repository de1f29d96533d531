// Fuzz target: any bytes as a picture, whole, with the channels and bits that they have, as a mask,
// and as a part at a reduced size, which is decoded twice to the same pixels. The limit on pixels
// keeps an input's cost small.
#include <brim/core/error.h>
#include <brim/data/image.h>

#include <cstddef>
#include <cstdint>

#include "data/image/decode.h"
#include "data/image/jpeg.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static thread_local brim::data::Image image, again;
  static thread_local brim::data::PixelImage pixels;
  try {
    brim::data::decode_image({data, size}, "fuzz", image, 1 << 16);
  } catch (const brim::FileError&) {
  }
  try {
    brim::data::decode_pixels({data, size}, "fuzz", pixels, 1 << 16);
    // Throws a ShapeError where the samples are not those of the sizes.
    std::visit(
        []<class T>(const brim::data::BasicImage<T>& of) {
          (void)brim::data::BasicImageView<T>(of);
        },
        pixels.pixels);
  } catch (const brim::FileError&) {
  }
  try {
    brim::data::decode_mask({data, size}, "fuzz", image, 1 << 16);
    if (image.channels != 1) __builtin_trap();
  } catch (const brim::FileError&) {
  }
  if (!brim::data::looks_like_jpeg({data, size})) return 0;
  for (const int eighths : {1, 2, 4, 8}) {
    try {
      using brim::data::Box;
      brim::data::JpegFile file({data, size}, "fuzz", 1 << 16);
      const int w = file.width(), h = file.height();
      const Box part{w / 3, h / 4, (w + 2) / 3, (h + 1) / 2};
      const Box place = file.decode(eighths, part, image);
      if (image.width != place.width || image.height != place.height) __builtin_trap();
      if (place.x * 8 > part.x * eighths || place.y * 8 > part.y * eighths) __builtin_trap();
      if ((place.x + place.width) * 8 < (part.x + part.width) * eighths) __builtin_trap();
      if ((place.y + place.height) * 8 < (part.y + part.height) * eighths) __builtin_trap();
      brim::data::JpegFile same({data, size}, "fuzz", 1 << 16);
      if (same.decode(eighths, part, again) != place) __builtin_trap();
      if (again.pixels != image.pixels) __builtin_trap();
    } catch (const brim::FileError&) {
    }
  }
  return 0;
}
