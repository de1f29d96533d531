// The newest calls of a group, for the record that a rank leaves behind when one fails.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "dist/transport.h"

namespace brim::dist {

class FlightRecorder {
 public:
  static constexpr size_t kCalls = 1000;

  void begin(const Call& call, double now);
  void end(double now);
  uint64_t calls() const { return count_; }
  /// A JSON object: rank, world_size, error, and the calls, the newest last, with the seconds from
  /// their begin to `now`, and what they took (null for the one that failed).
  std::string json(int rank, int size, const std::string& error, double now) const;

 private:
  struct Entry {
    Call call;
    double begin = 0, end = 0;
  };
  std::array<Entry, kCalls> entries_;
  uint64_t count_ = 0;
};

}  // namespace brim::dist
