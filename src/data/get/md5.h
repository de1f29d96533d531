// MD5 (Rivest 1992, RFC 1321): what the authors of data sets publish. It finds damage; it does not
// stop forgery.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace brim::data {

class Md5 {
 public:
  void add(const void* data, size_t bytes);
  /// 32 hexadecimal digits; to be called once, at the end.
  std::string hex();

 private:
  void block(const uint8_t* data);

  std::array<uint32_t, 4> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  std::array<uint8_t, 64> buffer_{};
  uint64_t total_ = 0;
};

/// The checksum of a file. Throws FileError.
std::string md5_of_file(const std::string& path);

}  // namespace brim::data
