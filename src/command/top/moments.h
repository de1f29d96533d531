// The moments that a view goes back and forth in: the newest of a running machine, or a recording.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "command/top/moment.h"
#include "io/regular_file.h"

namespace brim::top {

using MomentPointer = std::shared_ptr<const Moment>;

class Moments {
 public:
  virtual ~Moments() = default;
  virtual size_t size() const = 0;
  /// `index` below size(); the last one is the newest.
  virtual MomentPointer at(size_t index) = 0;

  /// Those up to `index`, at most `count`, the oldest first.
  std::vector<MomentPointer> until(size_t index, size_t count);
};

/// The newest moments, as many as a few megabytes hold.
class RecentMoments final : public Moments {
 public:
  /// How many old ones it let go of.
  size_t add(Moment moment);
  size_t size() const override { return moments_.size(); }
  MomentPointer at(size_t index) override { return moments_[index]; }

 private:
  std::deque<MomentPointer> moments_;
  size_t rows_ = 0;  // of all moments: what their memory grows with
};

/// A file of moments, one a line, read when they are asked for.
class Recording final : public Moments {
 public:
  /// Throws FileError where the file cannot be read or holds no moment. Lines that are damaged are
  /// left out.
  explicit Recording(const std::string& path);
  size_t size() const override { return lines_.size(); }
  MomentPointer at(size_t index) override;
  size_t damaged() const { return damaged_; }

 private:
  struct Line {
    uint64_t begin = 0, bytes = 0;
  };
  std::optional<Moment> parse(const Line& line) const;
  void add(Line line);

  io::RegularFile file_;
  std::vector<Line> lines_;
  size_t damaged_ = 0;
  std::deque<std::pair<size_t, MomentPointer>> cache_;
};

}  // namespace brim::top
