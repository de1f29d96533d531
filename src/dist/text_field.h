// Text in messages between ranks: fixed fields, perhaps of somebody who means ill.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "core/printable.h"

namespace brim::dist {

/// As much of it as the field holds, which was zeros.
template <size_t N>
void put_text(char (&to)[N], const std::string& text) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

/// What can be printed of it.
template <size_t N>
std::string take_text(const char (&from)[N]) {
  return printable(std::string(from, strnlen(from, N)));
}

}  // namespace brim::dist
