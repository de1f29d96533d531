#include "core/printable.h"

#include <cstdint>
#include <cstdio>

namespace brim {

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xc2   ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  // The second byte excludes long forms, surrogates and what lies above U+10FFFF.
  const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  return length;
}

bool is_utf8(std::string_view text) {
  while (const size_t length = utf8_length(text)) text.remove_prefix(length);
  return text.empty();
}

std::string printable(std::string_view text, std::string_view keep) {
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length > 0 ? length : 1);
    const auto first = static_cast<uint8_t>(character[0]);
    const bool is_c1 = first == 0xc2 && length == 2 && static_cast<uint8_t>(character[1]) < 0xa0;
    const bool is_control = (first < 0x20 && keep.find(character[0]) == std::string_view::npos) ||
                            first == 0x7f || is_c1;
    if (length == 0 || is_control)
      out += '?';
    else
      out += character;
    text.remove_prefix(character.size());
  }
  return out;
}

void warn_on_stderr(const std::string& line) {
  std::fputs(("brim: warning: " + printable(line) + "\n").c_str(), stderr);
}

}  // namespace brim
