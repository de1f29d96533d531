// Text from files, made fit for a message of one line.
#pragma once

#include <string>
#include <string_view>

namespace brim::io {

/// At most `limit` bytes of `text`, without control characters.
inline std::string shortened(std::string_view text, size_t limit = 60) {
  std::string out;
  for (const char c : text.substr(0, limit)) out += (c >= 0 && c < 32) || c == 127 ? '?' : c;
  return text.size() > limit ? out + "..." : out;
}

}  // namespace brim::io
