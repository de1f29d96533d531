// A buffer of samples, of which each sample is drawn.
#include <limits>

#include "data/dataset/sample_access.h"
#include "data/iterable/adapters.h"
#include "data/iterable/state_bytes.h"
#include "data/keyed.h"

namespace brim::data {
namespace {

class Shuffled final : public MadeOfOne {
 public:
  Shuffled(IterablePtr from, int64_t capacity, uint64_t seed)
      : MadeOfOne(std::move(from)), capacity_(static_cast<size_t>(capacity)), seed_(seed) {
    BRIM_CHECK(capacity >= 1 && capacity <= std::numeric_limits<int>::max(), ValueError,
               "[data] a shuffle buffer of {} samples; 1 or more", capacity);
  }

  void begin(int64_t epoch) override {
    MadeOfOne::begin(epoch);
    epoch_ = epoch;
    drawn_ = 0;
    filled_ = 0;
    ended_ = false;
  }

  bool next(Sample& out) override {
    while (!ended_ && filled_ < capacity_) {
      Sample& in = out.inner(this);
      if (from_->next(in))
        SampleAccess::swap_values(in, slot(filled_++));
      else
        ended_ = true;
    }
    if (filled_ == 0) return false;
    KeyedRandom random(
        key64(seed_, 0x62756666, static_cast<uint64_t>(epoch_), static_cast<uint64_t>(drawn_++)));
    Sample& drawn = samples_[static_cast<size_t>(random.uniform(0, static_cast<int>(filled_) - 1))];
    SampleAccess::swap_values(out, drawn);
    Sample& last = samples_[--filled_];
    if (&last != &drawn) SampleAccess::swap_values(drawn, last);
    return true;
  }

  std::string state() const override {
    StateWriter to("shuffled");
    to.number(static_cast<int64_t>(capacity_)).text(seed_text());
    to.number(drawn_).number(ended_).number(static_cast<int64_t>(filled_));
    for (size_t k = 0; k < filled_; ++k) to.sample(samples_[k]);
    return to.text(from_->state()).take();
  }

  void load_state(const std::string& state) override {
    StateReader read(state, "shuffled");
    read.same("buffer", static_cast<int64_t>(capacity_));
    BRIM_CHECK(read.text() == seed_text(), ValueError,
               "[data] the state is of another seed than that of shuffled() now; build the data "
               "set as it was");
    drawn_ = read.number();
    ended_ = read.number() != 0;
    const auto filled = static_cast<size_t>(read.number());
    BRIM_CHECK(filled <= capacity_, ValueError, "[data] {} samples in a buffer of {}", filled,
               capacity_);
    for (filled_ = 0; filled_ < filled; ++filled_) read.sample(slot(filled_));
    from_->load_state(std::string(read.text()));
    read.end();
  }

 private:
  Sample& slot(size_t k) {
    if (k == samples_.size()) samples_.emplace_back();
    return samples_[k];
  }
  std::string seed_text() const { return fmt::format("{}", seed_); }

  const size_t capacity_;
  const uint64_t seed_;
  int64_t epoch_ = 0, drawn_ = 0;
  std::vector<Sample> samples_;  // the first filled_ wait
  size_t filled_ = 0;
  bool ended_ = false;
};

}  // namespace

IterablePtr shuffled(IterablePtr from, int64_t buffer_samples, uint64_t seed) {
  return before_maps(from, [&](const IterablePtr& plain) {
    return std::make_shared<Shuffled>(plain, buffer_samples, seed);
  });
}

}  // namespace brim::data
