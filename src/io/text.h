// Text from files, made fit for a message of one line.
#pragma once

#include <string>
#include <string_view>

#include "core/printable.h"

namespace brim::io {

/// At most `limit` bytes of `text`, printable.
inline std::string shortened(std::string_view text, size_t limit = 60) {
  return printable(text.substr(0, limit)) + (text.size() > limit ? "..." : "");
}

}  // namespace brim::io
