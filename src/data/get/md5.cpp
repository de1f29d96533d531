#include "data/get/md5.h"

#include <md5.h>

#include "data/mapped_file.h"

namespace brim::data {

std::string md5_of(std::span<const uint8_t> bytes) {
  char digits[MD5_DIGEST_STRING_LENGTH];  // with the 0 at the end
  return MD5Data(bytes.data(), bytes.size(), digits);
}

std::string md5_of_file(const std::string& path) {
  const MappedFile file(path);
  const std::string sum = md5_of(file.bytes());
  file.check();
  return sum;
}

}  // namespace brim::data
