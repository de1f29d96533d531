// The generator hands out counters; the numbers themselves are computed where they are needed.
#include <brim/core/random.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/check.h"
#include "core/recording.h"

namespace brim {

// seed and offset change rarely together, so one lock around both is enough.
namespace {
class SpinLock {
 public:
  SpinLock() {
    while (flag.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~SpinLock() { flag.clear(std::memory_order_release); }

 private:
  static inline std::atomic_flag flag;
};

thread_local constinit uint64_t current_part = 0, current_parts = 1;
thread_local constinit bool in_parts = false;
thread_local constinit Generator* of_thread = nullptr;  // of the innermost GeneratorScope
}  // namespace

Generator::Generator(uint64_t seed) : state_{seed, 0} {
  refuse_in_recording("Generator", "one made inside the step would end with it; make it before");
}

RandomKey Generator::draw(RandomKey place) {
  {
    const SpinLock lock;
    place.seed = state_.seed;
    place.offset = state_.offset++;
  }
  if (recording) [[unlikely]]
    recording->drew(*this, place);
  return place;
}

RandomKey Generator::next() { return draw({.part = current_part}); }

RandomKey Generator::next_of_samples(int64_t count) {
  const auto own = static_cast<uint64_t>(count);
  if (own % 4 != 0) return next();
  return draw({.part = own * current_parts, .block = current_part * (own / 4)});
}

void Generator::manual_seed(uint64_t seed) { set_state({seed, 0}); }

RandomKey Generator::state() const {
  const SpinLock lock;
  return state_;
}

void Generator::set_state(RandomKey state) {
  refuse_in_recording("set_state",
                      "a seed set inside the step would be set once, when the plan is "
                      "made; set it before the step");
  const SpinLock lock;
  state_ = {.seed = state.seed, .offset = state.offset};
}

GeneratorScope::GeneratorScope(Generator& generator)
    : outer_(std::exchange(of_thread, &generator)) {}
GeneratorScope::~GeneratorScope() { of_thread = outer_; }

RandomParts::RandomParts(Generator& generator, int64_t parts)
    : generator_(generator), begin_(generator.state()), furthest_(begin_.offset) {
  BRIM_CHECK(!in_parts, ValueError, "[RandomParts] inside of another one; end that first");
  in_parts = true;
  current_parts = static_cast<uint64_t>(parts);
}

void RandomParts::begin(uint64_t part) {
  current_part = part;
  const SpinLock lock;
  furthest_ = std::max(furthest_, generator_.state_.offset);
  generator_.state_ = begin_;
}

RandomParts::~RandomParts() {
  in_parts = false;
  current_part = 0;
  current_parts = 1;
  const SpinLock lock;
  generator_.state_.offset = std::max(furthest_, generator_.state_.offset);
}

Generator& Generator::global() {
  static Generator generator;
  return of_thread ? *of_thread : generator;
}

void manual_seed(uint64_t seed) { Generator::global().manual_seed(seed); }

}  // namespace brim
