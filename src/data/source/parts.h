// A source whose samples lie in a part for each split, train before test.
#pragma once

#include <brim/data/source.h>

#include <string>
#include <utility>
#include <vector>

namespace brim::data {

/// Part has `labels`, and `first`, the number that its first sample has in the source. There are
/// one or two.
template <class Part>
class SourceOfParts : public Source {
 public:
  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override {
    const Part& part = part_of(i);
    return part.labels[static_cast<size_t>(i - part.first)];
  }

 protected:
  const Part& part_of(int64_t i) const {
    return i < parts_.back().first ? parts_[0] : parts_.back();
  }
  void add(Part part) {
    part.first = size_;
    size_ += static_cast<int64_t>(part.labels.size());
    parts_.push_back(std::move(part));
  }

  std::vector<Part> parts_;
  std::vector<std::string> classes_;

 private:
  int64_t size_ = 0;
};

}  // namespace brim::data
