#include "command/top/recorder.h"

#include <fcntl.h>

#include <cerrno>

#include "core/check.h"
#include "core/write_cure.h"
#include "io/atomic_file.h"
#include "io/regular_file.h"

namespace brim::top {
namespace {

constexpr const char* kOtherwise = "name another file for --record";

bool ends_within_line(const std::string& path) {
  const io::RegularFile file(path, "top", "a recording of brim top --record");
  char last = '\n';
  if (file.bytes() > 0) file.read(&last, 1, file.bytes() - 1);
  return last != '\n';
}

}  // namespace

Recorder::Recorder(const std::string& path)
    : path_(path), out_(open_stream(path, O_WRONLY | O_APPEND)) {
  BRIM_CHECK(out_, FileError, "[top] {} cannot be written: {}", path,
             write_failure(errno, kOtherwise));
  if (ends_within_line(path)) write("\n");
}

void Recorder::add(const Moment& moment) {
  write(to_json(moment).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Recorder::write(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), out_.get()) == text.size() &&
                       std::fflush(out_.get()) == 0;
  BRIM_CHECK(written, FileError, "[top] {} cannot be written: {}", path_,
             write_failure(errno, kOtherwise));
}

}  // namespace brim::top
