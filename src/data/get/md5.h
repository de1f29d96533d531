// MD5 (RFC 1321): what the authors of data sets publish. It finds damage; it does not stop forgery.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace brim::data {

/// 32 hexadecimal digits.
std::string md5_of(std::span<const uint8_t> bytes);

/// The checksum of a file. Throws FileError.
std::string md5_of_file(const std::string& path);

}  // namespace brim::data
