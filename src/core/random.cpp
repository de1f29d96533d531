// The generator hands out counters; the numbers themselves are computed where they are needed.
#include <brim/core/random.h>

#include <atomic>

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
}  // namespace

Generator::Generator(uint64_t seed) : state_{seed, 0} {
  refuse_in_recording("Generator", "one made inside the step would end with it; make it before");
}

RandomKey Generator::next() {
  RandomKey key;
  {
    const SpinLock lock;
    key = state_;
    ++state_.offset;
  }
  if (recording) [[unlikely]]
    recording->drew(*this, key);
  return key;
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
  state_ = state;
}

Generator& Generator::global() {
  static Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { Generator::global().manual_seed(seed); }

}  // namespace brim
