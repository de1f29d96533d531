#include <brim/data/tables.h>

#include "core/check.h"
#include "data/dataset/token_windows.h"
#include "data/mapped_file.h"
#include "data/prefetch.h"

namespace brim::data {
namespace {

class Tokens final : public Dataset {
 public:
  Tokens(const std::string& path, const TokenOptions& options) : file_(path), options_(options) {
    const TokenOptions& o = options_;
    widen_window(o.dtype, nullptr, 0, nullptr, nullptr);  // whether it is one of these
    if (options_.stride == 0) options_.stride = o.window;
    BRIM_CHECK(o.window > 0 && o.stride > 0, ValueError,
               "[data] windows of {} tokens, {} apart: must be at least 1", o.window, o.stride);
    BRIM_CHECK(o.vocabulary >= 0, ValueError, "[data] a vocabulary of {}", o.vocabulary);
    const auto bytes = static_cast<int64_t>(file_.bytes().size());
    const auto token = static_cast<int64_t>(size_of(o.dtype));
    BRIM_CHECK(bytes % token == 0, FileError, "{}: {} bytes are no whole number of {} tokens", path,
               bytes, name(o.dtype));
    const int64_t tokens = bytes / token;
    BRIM_CHECK(
        tokens > o.window, FileError,
        "{}: {} tokens, and a window of {} with the one behind it needs more; take a shorter "
        "window",
        path, tokens, o.window);
    size_ = (tokens - o.window - 1) / o.stride + 1;
  }
  int64_t size() const override { return size_; }
  void get(int64_t i, Sample& out) const override {
    const auto x = out.make<int64_t>("x", {options_.window});
    const auto y = out.make<int64_t>("y", {options_.window});
    widen_window(options_.dtype, window(i), options_.window, x.data(), y.data());
    if (options_.vocabulary == 0) return;
    check_token(i, x[0]);
    for (const int64_t t : y) check_token(i, t);
  }
  void prefetch(int64_t i) const noexcept override {
    data::prefetch(window(i), (options_.window + 1) * token());
  }
  int64_t length(int64_t) const override { return options_.window; }
  std::string describe(int64_t i) const override {
    return fmt::format("{}: tokens from {} on", file_.path(), i * options_.stride);
  }
  void check() const override { file_.check(); }
  bool in_memory() const override { return true; }

 private:
  int64_t token() const { return static_cast<int64_t>(size_of(options_.dtype)); }  // its bytes
  const uint8_t* window(int64_t i) const {
    return file_.bytes().data() + i * options_.stride * token();
  }
  void check_token(int64_t i, int64_t t) const {
    BRIM_CHECK(t >= 0 && t < options_.vocabulary, FileError,
               "{}: a token is {}, and the vocabulary has {}", describe(i), t, options_.vocabulary);
  }

  MappedFile file_;
  TokenOptions options_;
  int64_t size_ = 0;
};

}  // namespace

DatasetPtr open_tokens(const std::string& path, const TokenOptions& options) {
  return std::make_shared<Tokens>(path, options);
}

}  // namespace brim::data
