// A gzip file as a stream of bytes, through zlib.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace brim::data {

/// The most bytes that deflate makes of one (zlib.net/zlib_tech.html): what a gzip file declares
/// beyond that is false.
inline constexpr int64_t kMaxGzipRatio = 1032;

/// Inflates a gzip file that lies in memory, or several joined, into memory of the caller: it
/// allocates no more than zlib's window, whatever the file holds.
class GzipReader {
 public:
  /// `bytes` must outlive the reader; `name` begins its errors.
  GzipReader(std::span<const uint8_t> bytes, std::string name);
  ~GzipReader();

  /// Fills a part of `out` and returns its size: 0 at the end, where the checksum is right and
  /// nothing follows. Throws FileError for damage.
  size_t read_some(std::span<uint8_t> out);

  /// Fills `out`. Throws FileError if the data are damaged or end before.
  void read(std::span<uint8_t> out);

  /// Throws FileError unless the data end here, with the right checksum and nothing behind them.
  void finish();

  /// The packed bytes that are left.
  size_t left() const { return left_.size(); }

 private:
  struct Impl;

  std::span<const uint8_t> left_;
  std::string name_;
  std::unique_ptr<Impl> impl_;
  bool ended_ = false;
};

/// True if the first bytes are those of a gzip file.
bool looks_like_gzip(std::span<const uint8_t> bytes);

}  // namespace brim::data
