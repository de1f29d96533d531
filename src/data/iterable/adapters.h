// Iterable data sets that are made of another one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <brim/data/iterable.h>

#include "core/check.h"

namespace brim::data {

class MadeOfOne : public IterableDataset {
 public:
  explicit MadeOfOne(IterablePtr from) : from_(std::move(from)) {
    BRIM_CHECK(from_ != nullptr, ValueError, "[data] an iterable data set that is null");
  }
  void begin(int64_t epoch) override { from_->begin(epoch); }
  std::string describe() const override { return from_->describe(); }
  void interrupt() override { from_->interrupt(); }
  const IterablePtr& from() const { return from_; }

 protected:
  const IterablePtr from_;
};

class MappedIterable final : public MadeOfOne {
 public:
  using Function = std::function<void(const Sample&, Sample&)>;
  MappedIterable(IterablePtr from, Function f);
  bool next(Sample& out) override;
  std::string state() const override { return from_->state(); }
  void load_state(const std::string& state) override { from_->load_state(state); }
  const Function& function() const { return f_; }

 private:
  const Function f_;
};

/// make(from), or map(make(...), f) where `from` is mapped: what only chooses samples comes before
/// what changes them, which is left to the loader's workers.
template <class Make>
IterablePtr before_maps(const IterablePtr& from, const Make& make) {
  const auto* const mapped = dynamic_cast<const MappedIterable*>(from.get());
  return mapped ? map(before_maps(mapped->from(), make), mapped->function()) : make(from);
}

/// As sharded(), with a state that every rank can go on from: nothing behind it holds samples of
/// this rank.
IterablePtr sharded_last(IterablePtr from, int rank, int world_size);

}  // namespace brim::data
