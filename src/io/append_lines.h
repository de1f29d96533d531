// Files of lines that grow from one process to the next.
#pragma once

#include <string>

#include "core/open_to_write.h"

namespace brim::io {

/// Opens a file to add lines to it, as open_stream() does; a line that an earlier process left half
/// written is ended first, so that it spoils no other.
OwnedStream open_lines(const std::string& path);

}  // namespace brim::io
