// Iterable data sets made of others: mapped, cut short, shared by ranks, one behind the other.
#include "data/iterable/adapters.h"

#include <atomic>
#include <exception>
#include <mutex>

#include "data/dataset/get_sample.h"
#include "data/dataset/sample_access.h"
#include "data/iterable/state_bytes.h"

namespace brim::data {
namespace {

class Taken final : public MadeOfOne {
 public:
  Taken(IterablePtr from, int64_t samples) : MadeOfOne(std::move(from)), samples_(samples) {
    BRIM_CHECK(samples >= 0, ValueError, "[data] the first {} samples; 0 or more", samples);
  }
  void begin(int64_t epoch) override {
    MadeOfOne::begin(epoch);
    taken_ = 0;
  }
  bool next(Sample& out) override {
    if (taken_ == samples_) return false;
    ++taken_;
    return from_->next(out);
  }
  std::string state() const override {
    return StateWriter("take").number(samples_).number(taken_).text(from_->state()).take();
  }
  void load_state(const std::string& state) override {
    StateReader read(state, "take");
    read.same("number of samples", samples_);
    const int64_t taken = read.number();
    BRIM_CHECK(taken <= samples_, ValueError,
               "[data] a state behind sample {} of the first {}; it is damaged", taken, samples_);
    from_->load_state(std::string(read.text()));
    read.end();
    taken_ = taken;
  }

 private:
  const int64_t samples_;
  int64_t taken_ = 0;
};

/// Reads a sample for each rank, and gives away that of its own.
class Sharded final : public MadeOfOne {
 public:
  Sharded(IterablePtr from, int rank, int world_size, bool same_for_all)
      : MadeOfOne(std::move(from)),
        rank_(rank),
        world_size_(world_size),
        kept_rank_(same_for_all ? 0 : rank) {
    BRIM_CHECK(world_size > 0 && rank >= 0 && rank < world_size, ValueError,
               "[data] rank {} of world_size {}: must be 0 to world_size - 1", rank, world_size);
  }
  bool next(Sample& out) override {
    std::exception_ptr broken;
    const auto note = [&](int r) {  // what is of another rank is told there
      if (r == rank_) broken = std::current_exception();
    };
    for (int r = 0; r < world_size_; ++r) {
      try {
        bool more = false;
        Sample& to = r == rank_ ? out : out.inner(this);
        read_named([&] { return from_->describe(); }, [&] { more = from_->next(to); });
        if (!more) return false;
      } catch (const FileError&) {
        note(r);
      } catch (const ShapeError&) {
        note(r);
      }
    }
    if (broken) std::rethrow_exception(broken);
    SampleAccess::draw_apart(out, static_cast<uint64_t>(rank_));
    return true;
  }
  std::string state() const override {
    return StateWriter("sharded")
        .number(world_size_)
        .number(kept_rank_)
        .text(from_->state())
        .take();
  }
  void load_state(const std::string& state) override {
    StateReader read(state, "sharded");
    read.same("world_size", world_size_);
    read.same("rank", kept_rank_);
    from_->load_state(std::string(read.text()));
    read.end();
  }

 private:
  const int rank_, world_size_;
  const int kept_rank_;  // in the state
};

class Chain final : public IterableDataset {
 public:
  explicit Chain(std::vector<std::function<IterablePtr()>> parts) : parts_(std::move(parts)) {
    BRIM_CHECK(!parts_.empty(), ValueError, "[data] no data sets; give one or more");
    for (const auto& part : parts_)
      BRIM_CHECK(part != nullptr, ValueError, "[data] no function that makes a data set");
  }
  void begin(int64_t epoch) override {
    epoch_ = epoch;
    part_ = 0;
    interrupted_ = false;
    set_current(nullptr);
  }
  bool next(Sample& out) override {
    for (; part_ < parts_.size() && !interrupted_; ++part_) {
      if (!current_) open();
      if (current_->next(out)) return true;
      set_current(nullptr);
      SampleAccess::empty(out);
    }
    return false;
  }
  std::string state() const override {
    StateWriter to("chain");
    to.number(static_cast<int64_t>(parts_.size())).number(static_cast<int64_t>(part_));
    return to.number(current_ != nullptr).text(current_ ? current_->state() : "").take();
  }
  void load_state(const std::string& state) override {
    StateReader read(state, "chain");
    read.same("number of parts", static_cast<int64_t>(parts_.size()));
    part_ = static_cast<size_t>(read.number());
    const bool inside = read.number() != 0;
    const std::string_view of_part = read.text();
    read.end();
    BRIM_CHECK(part_ < parts_.size() || !inside, ValueError,
               "[data] a state in part {} of a chain of {}", part_, parts_.size());
    set_current(nullptr);
    if (!inside) return;
    open();
    current_->load_state(std::string(of_part));
  }
  std::string describe() const override {
    const std::lock_guard lock(mutex_);
    return current_ ? current_->describe() : IterableDataset::describe();
  }
  void interrupt() override {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
    if (current_) current_->interrupt();
  }

 private:
  /// Makes the current part. Where that fails, the chain goes on behind it.
  void open() {
    const size_t part = part_++;
    const IterablePtr made = parts_[part]();
    BRIM_CHECK(made != nullptr, ValueError, "[data] part {} of a chain is null", part);
    made->begin(epoch_);
    set_current(made);
    part_ = part;
  }
  void set_current(IterablePtr part) {
    const std::lock_guard lock(mutex_);
    current_ = std::move(part);
    if (current_ && interrupted_) current_->interrupt();
  }

  const std::vector<std::function<IterablePtr()>> parts_;
  int64_t epoch_ = 0;
  size_t part_ = 0;
  mutable std::mutex mutex_;  // of current_, where another thread looks at it
  IterablePtr current_;
  std::atomic<bool> interrupted_{false};
};

}  // namespace

std::string IterableDataset::state() const {
  raise<ValueError>(
      "[data] {} does not say where it is, so a run cannot go on amid an epoch of it; override "
      "state() and load_state()",
      describe());
}

void IterableDataset::load_state(const std::string&) {
  raise<ValueError>("[data] {} takes no state; override state() and load_state()", describe());
}

std::string IterableDataset::describe() const { return "an iterable data set"; }

MappedIterable::MappedIterable(IterablePtr from, Function f)
    : MadeOfOne(std::move(from)), f_(std::move(f)) {
  BRIM_CHECK(f_ != nullptr, ValueError, "[data] no function to map the samples with");
}

bool MappedIterable::next(Sample& out) {
  Sample& in = out.inner(this);
  if (!from_->next(in)) return false;
  f_(in, out);
  return true;
}

IterablePtr map(IterablePtr from, std::function<void(const Sample&, Sample&)> f) {
  return std::make_shared<MappedIterable>(std::move(from), std::move(f));
}

IterablePtr take(IterablePtr from, int64_t samples) {
  return before_maps(
      from, [&](const IterablePtr& plain) { return std::make_shared<Taken>(plain, samples); });
}

IterablePtr sharded(IterablePtr from, int rank, int world_size) {
  return before_maps(from, [&](const IterablePtr& plain) {
    return std::make_shared<Sharded>(plain, rank, world_size, false);
  });
}

IterablePtr sharded_last(IterablePtr from, int rank, int world_size) {
  return std::make_shared<Sharded>(std::move(from), rank, world_size, true);
}

IterablePtr chain(std::vector<std::function<IterablePtr()>> parts) {
  return std::make_shared<Chain>(std::move(parts));
}

}  // namespace brim::data
