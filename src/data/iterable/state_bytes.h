// The state of iterable data sets and of epochs as bytes: numbers and texts behind a word that says
// what it is a state of. Bytes of a file are not trusted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <brim/data/sample.h>

namespace brim::data {

class StateWriter {
 public:
  explicit StateWriter(std::string_view kind) { text(kind); }
  StateWriter& number(int64_t value);
  StateWriter& text(std::string_view value);
  /// Name, dtype and shape of a field, without its values.
  StateWriter& layout(std::string_view name, DType dtype, const Shape& shape);
  StateWriter& sample(const Sample& sample);
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// All of it throws ValueError where the bytes are not what was written.
class StateReader {
 public:
  StateReader(std::string_view bytes, std::string_view kind);
  /// 0 to INT64_MAX / 2, so that it can be counted on from there.
  int64_t number();
  std::string_view text();
  struct Layout {
    std::string name;
    DType dtype;
    Shape shape;
    int64_t bytes;
  };
  Layout layout();
  void sample(Sample& out);
  /// Reads a number that must be `now`.
  void same(std::string_view what, int64_t now);
  /// Nothing may be left.
  void end() const;

 private:
  std::string_view taken(size_t bytes);
  [[noreturn]] void damaged() const;

  std::string_view left_;
  const std::string kind_;
};

}  // namespace brim::data
