// What every fake has (fake.h): where the emulation attaches it, and what tests read.
#include "fakes/fake.h"

extern "C" {
void brim_fake_attach(const brim::cuda::emulation::Machine* machine) {
  brim::fake::machine = machine;
}
/// For tests: the calls noted since the last time.
const char* brim_fake_calls();
const char* brim_fake_calls() {
  const std::lock_guard lock(brim::fake::mutex);
  brim::fake::given.swap(brim::fake::calls);
  brim::fake::calls.clear();
  return brim::fake::given.c_str();
}
}
