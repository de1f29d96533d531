// The one way in which brim opens a file that it writes. tools/check_includes.py looks for others.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace brim {

/// Opens a regular file, made if it is not there. A link is not followed and what is no regular
/// file is refused: whoever may write to the folder cannot lead brim elsewhere. `flags`: O_WRONLY |
/// O_EXCL for a new file, O_WRONLY | O_APPEND, or O_RDWR. Returns its descriptor, or -1 and errno.
int open_to_write(const std::string& path, int flags, unsigned mode = 0666);

/// The same as a stream, empty where it cannot be opened.
using OwnedStream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
OwnedStream open_stream(const std::string& path, int flags);

}  // namespace brim
