// Helpers of the data tests: small files, and pictures made in code.
#pragma once

#include <gtest/gtest.h>
#include <jpeglib.h>
#include <png.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "message_of.h"
#include "temporary_folder.h"

namespace brim::data::tests {

namespace fs = std::filesystem;

using brim::tests::message_of;
using brim::tests::TemporaryFolder;

inline void write_bytes(const std::string& path, const std::vector<uint8_t>& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline std::vector<uint8_t> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Whether `part` is in `text`.
inline ::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

/// A smooth picture that differs with `seed`; interleaved, 1 or 3 channels.
inline std::vector<uint8_t> gradient(int width, int height, int channels, int seed) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        pixels.push_back(static_cast<uint8_t>((x * (3 + c) + y * (5 - c) + seed * 37) & 0x7f));
      }
    }
  }
  return pixels;
}

/// How colour is stored in a JPEG, and in how many passes.
struct JpegKind {
  int across = 2, down = 2;  // pixels of brightness for one of colour
  bool progressive = false;
  bool coarse = false;  // progressive, and ends after the mean of each block
};

inline std::vector<uint8_t> encode_jpeg(const std::vector<uint8_t>& pixels, int width, int height,
                                        int channels, const JpegKind& kind = {}) {
  jpeg_compress_struct codec;
  jpeg_error_mgr errors;
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &data, &size);
  codec.image_width = static_cast<unsigned>(width);
  codec.image_height = static_cast<unsigned>(height);
  codec.input_components = channels;
  codec.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, 95, TRUE);
  codec.comp_info[0].h_samp_factor = kind.across;
  codec.comp_info[0].v_samp_factor = kind.down;
  if (kind.progressive) jpeg_simple_progression(&codec);
  const jpeg_scan_info means = {3, {0, 1, 2}, 0, 0, 0, 0};
  if (kind.coarse) codec.scan_info = &means, codec.num_scans = 1;
  jpeg_start_compress(&codec, TRUE);
  while (codec.next_scanline < codec.image_height) {
    auto* row = const_cast<unsigned char*>(&pixels[size_t{codec.next_scanline} * width * channels]);
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::vector<uint8_t> bytes(data, data + size);
  std::free(data);
  return bytes;
}

/// A progressive JPEG of 8 x 8 pixels with one scan for each of `bits` bits of each coefficient.
inline std::vector<uint8_t> jpeg_of_many_scans(int bits) {
  std::vector<jpeg_scan_info> scans = {{3, {0, 1, 2}, 0, 0, 0, 0}};
  for (int c = 0; c < 3; ++c) {
    for (int k = 1; k < 64; ++k) {
      for (int bit = bits - 1; bit >= 0; --bit)
        scans.push_back({1, {c}, k, k, bit == bits - 1 ? 0 : bit + 1, bit});
    }
  }
  jpeg_compress_struct codec;
  jpeg_error_mgr errors;
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &data, &size);
  codec.image_width = codec.image_height = 8;
  codec.input_components = 3;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  codec.scan_info = scans.data();
  codec.num_scans = static_cast<int>(scans.size());
  jpeg_start_compress(&codec, TRUE);
  std::vector<uint8_t> pixels = gradient(8, 8, 3, 1);
  while (codec.next_scanline < 8) {
    unsigned char* row = &pixels[size_t{codec.next_scanline} * 24];
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::vector<uint8_t> bytes(data, data + size);
  std::free(data);
  return bytes;
}

inline std::vector<uint8_t> encode_png(const std::vector<uint8_t>& pixels, int width, int height,
                                       int channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::vector<uint8_t> bytes(size);
  png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr);
  bytes.resize(size);
  return bytes;
}

/// The JPEG of a width x height gradient.
inline std::vector<uint8_t> jpeg(int width, int height, int seed) {
  return encode_jpeg(gradient(width, height, 3, seed), width, height, 3);
}

/// One CIFAR-10 record after another, pixels from the index.
inline std::vector<uint8_t> cifar_records(const std::vector<int>& labels) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < labels.size(); ++i) {
    bytes.push_back(static_cast<uint8_t>(labels[i]));
    for (int p = 0; p < 3072; ++p)
      bytes.push_back(static_cast<uint8_t>(p * 7 + static_cast<int>(i) * 13));
  }
  return bytes;
}

}  // namespace brim::data::tests
