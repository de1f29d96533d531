// JPEG by libjpeg, whose way out of an error must not return: it longjmps over nothing that has a
// destructor.
#pragma once

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include "picture.h"

struct JpegReader {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  std::jmp_buf jump{};
  std::FILE* file;

  explicit JpegReader(const std::string& path) : file(std::fopen(path.c_str(), "rb")) {
    if (!file) throw std::runtime_error("cannot be opened");
    codec.err = jpeg_std_error(&errors);
    codec.client_data = this;
    errors.error_exit = [](j_common_ptr c) {
      std::longjmp(static_cast<JpegReader*>(c->client_data)->jump, 1);
    };
  }
  ~JpegReader() {
    jpeg_destroy_decompress(&codec);
    std::fclose(file);
  }
  bool begin() {
    if (setjmp(jump)) return false;
    jpeg_create_decompress(&codec);
    jpeg_stdio_src(&codec, file);
    jpeg_read_header(&codec, TRUE);
    codec.out_color_space = JCS_RGB;
    return jpeg_start_decompress(&codec);
  }
  bool read(unsigned char* rgb) {
    if (setjmp(jump)) return false;
    while (codec.output_scanline < codec.output_height) {
      JSAMPROW row = rgb + static_cast<size_t>(codec.output_scanline) * codec.output_width * 3;
      jpeg_read_scanlines(&codec, &row, 1);
    }
    return true;
  }
};

inline Picture load_jpeg(const std::string& path) {
  JpegReader reader(path);
  if (!reader.begin()) throw std::runtime_error("no JPEG, or damaged");
  Picture picture;
  picture.resize(static_cast<int>(reader.codec.output_width),
                 static_cast<int>(reader.codec.output_height));
  if (!reader.read(picture.rgb.data())) throw std::runtime_error("damaged");
  return picture;
}
