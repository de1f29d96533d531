#include "command/top/recorder.h"

#include <cerrno>

#include "core/check.h"
#include "core/write_cure.h"
#include "io/append_lines.h"

namespace brim::top {
namespace {

constexpr const char* kOtherwise = "name another file for --record";

}  // namespace

Recorder::Recorder(const std::string& path) : path_(path), out_(io::open_lines(path)) {
  BRIM_CHECK(out_, FileError, "[top] {} cannot be written: {}", path,
             write_failure(errno, kOtherwise));
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
