#include "io/append_lines.h"

#include <fcntl.h>

#include "core/check.h"
#include "io/regular_file.h"

namespace brim::io {
namespace {

bool ends_within_line(const std::string& path) try {
  const RegularFile file(path, "file", "lines");
  char last = '\n';
  if (file.bytes() > 0) file.read(&last, 1, file.bytes() - 1);
  return last != '\n';
} catch (const FileError&) {  // this user may write it alone
  return false;
}

}  // namespace

OwnedStream open_lines(const std::string& path) {
  OwnedStream out = open_stream(path, O_WRONLY | O_APPEND);
  if (out && ends_within_line(path)) std::fputc('\n', out.get());  // a failure shows at the flush
  return out;
}

}  // namespace brim::io
