// Lines of a text file or a pipe. What waits for a pipe waits for an event beside it, too, by which
// interrupt() ends it.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include <brim/data/iterable.h>

#include "core/check.h"
#include "data/iterable/state_bytes.h"

namespace brim::data {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10, kMaxLine = size_t{1} << 30;

/// A descriptor of its own.
class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  const int fd_;
};

class TextLines final : public IterableDataset {
 public:
  explicit TextLines(const std::string& path)
      : name_(path == "-" ? "standard input" : path),
        file_(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                          : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    struct stat info {};
    BRIM_CHECK(file_.get() >= 0 && ::fstat(file_.get(), &info) == 0, FileError,
               "{}: cannot open: {}", name_, std::strerror(errno));
    BRIM_CHECK(!S_ISDIR(info.st_mode), FileError, "{}: a folder; expected a file or a pipe", name_);
    BRIM_CHECK(wake_.get() >= 0, FileError, "{}: cannot be waited for: {}", name_,
               std::strerror(errno));
    is_file_ = S_ISREG(info.st_mode);
  }

  void begin(int64_t) override {
    uint64_t count = 0;
    while (::read(wake_.get(), &count, sizeof(count)) > 0) {
    }
    if (is_file_) go_to(0, 0);
  }

  bool next(Sample& out) override {
    size_t length = 0;
    for (size_t looked = begin_;;) {
      const std::string_view waiting(buffer_.data() + looked, end_ - looked);
      if (const size_t at = waiting.find('\n'); at != waiting.npos) {
        length = looked + at - begin_;
        break;
      }
      if (!ended_ && end_ - begin_ > kMaxLine) {
        ended_ = true;
        begin_ = end_;
        raise<FileError>("{}: line {} has more than {} bytes; is it text?", name_, line_ + 1,
                         kMaxLine);
      }
      looked = end_ - begin_;
      const bool more = !ended_ && fill();
      looked += begin_;
      if (more) continue;
      if (!ended_ || begin_ == end_) return false;  // interrupted, or nothing is left
      length = end_ - begin_;
      break;
    }
    uint8_t* const to = out.make<uint8_t>("text", {static_cast<int64_t>(length)}).data();
    if (length > 0) std::memcpy(to, buffer_.data() + begin_, length);
    const size_t taken = std::min(length + 1, end_ - begin_);
    begin_ += taken;
    offset_ += static_cast<int64_t>(taken);
    ++line_;
    return true;
  }

  std::string state() const override {
    BRIM_CHECK(is_file_, ValueError,
               "[data] {} is a pipe: what it gave cannot be read again, so a run cannot go on from "
               "a checkpoint of it; write the lines to a file",
               name_);
    return StateWriter("lines").number(offset_).number(line_).take();
  }

  void load_state(const std::string& state) override {
    StateReader read(state, "lines");
    const int64_t offset = read.number(), line = read.number();
    read.end();
    struct stat info {};
    BRIM_CHECK(is_file_ && ::fstat(file_.get(), &info) == 0 && info.st_size >= offset, ValueError,
               "[data] {} has no byte {}, where the state goes on; give the file that it is of",
               name_, offset);
    go_to(offset, line);
  }

  std::string describe() const override { return name_; }

  void interrupt() override {
    const uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));
  }

 private:
  void go_to(int64_t offset, int64_t line) {
    BRIM_CHECK(::lseek(file_.get(), offset, SEEK_SET) == offset, FileError,
               "{}: cannot go to byte {}: {}", name_, offset, std::strerror(errno));
    offset_ = offset;
    line_ = line;
    begin_ = end_ = 0;
    ended_ = false;
  }

  /// Reads more behind what is there; false at the end, and where it was interrupted.
  bool fill() {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (buffer_.size() - end_ < kReadBytes)
      buffer_.resize(std::max(2 * buffer_.size(), end_ + kReadBytes));
    while (true) {
      pollfd fds[] = {{wake_.get(), POLLIN, 0}, {file_.get(), POLLIN, 0}};
      if (::poll(fds, 2, -1) < 0) {
        if (errno == EINTR) continue;
        fail();
      }
      if (fds[0].revents != 0) return false;
      const ssize_t got = ::read(file_.get(), buffer_.data() + end_, buffer_.size() - end_);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0) fail();
      ended_ = got == 0;
      end_ += static_cast<size_t>(got);
      return got > 0;
    }
  }

  [[noreturn]] void fail() {
    ended_ = true;
    begin_ = end_;
    raise<FileError>("{}: cannot read behind line {}: {}", name_, line_, std::strerror(errno));
  }

  const std::string name_;
  const OwnedFd file_, wake_;
  bool is_file_ = false;
  std::string buffer_;  // begin_ to end_ wait
  size_t begin_ = 0, end_ = 0;
  int64_t offset_ = 0, line_ = 0;  // behind which the next line begins
  bool ended_ = false;
};

}  // namespace

IterablePtr open_lines(const std::string& path) { return std::make_shared<TextLines>(path); }

}  // namespace brim::data
