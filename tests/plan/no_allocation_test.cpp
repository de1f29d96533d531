// A replayed step allocates nothing and takes no lock: counted by functions that stand in front of
// glibc's. Sanitizers have their own in that place, so there this test is left out.
#include <cstdlib>

#include "sanitized.h"

#if defined(__GLIBC__) && !BRIM_SANITIZED

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

#include <brim/brim.h>

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0}, locks{0};

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// operator new ends here too.
extern "C" void* __libc_malloc(size_t bytes);
extern "C" void* __libc_memalign(size_t alignment, size_t bytes);
extern "C" void* malloc(size_t bytes) {
  if (counting) ++allocations;
  return __libc_malloc(bytes);
}
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) {
  if (counting) ++allocations;
  return __libc_memalign(alignment, bytes);
}
extern "C" int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  if (counting) ++allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  if (counting) ++locks;
  return real(mutex);
}
extern "C" int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  if (counting) ++locks;
  return real(mutex);
}

namespace brim {
namespace {

template <class Step>
void expect_nothing_taken(Step& step, const Tensor& x, const Tensor& y) {
  // A worker's thread_local variables are allocated when it first touches them, which on a busy
  // machine may come late.
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5; ++i) step(x, y);
    allocations = locks = 0;
    counting = true;
    for (int i = 0; i < 10; ++i) step(x, y);
    counting = false;
    if (allocations == 0 && locks == 0) break;
  }
  EXPECT_EQ(allocations, 0) << step.explain();
  EXPECT_EQ(locks, 0) << step.explain();
  // The counters do count.
  counting = true;
  const Tensor t = x + 1;
  counting = false;
  EXPECT_GT(allocations, 0);
  EXPECT_GT(locks, 0);
}

void expect_for_model(nn::Module& net, const Shape& shape) {
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.01, .momentum = 0.9});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  expect_nothing_taken(step, randn(shape), randint(0, 10, {shape[0]}, {.dtype = i64}));
}

TEST(NoAllocation, TutorialCnn) {
  for (const int64_t n : {4, 64, 128})
    expect_for_model(*nn::make_model("tutorial-cnn", {}), {n, 3, 32, 32});
}

TEST(NoAllocation, Mlp) {
  nn::Sequential net;
  net.add<nn::Linear>("fc1", {.in = 784, .out = 128});
  net.add<nn::ReLU>("relu");
  net.add<nn::Linear>("fc2", {.in = 128, .out = 10});
  for (const int64_t n : {8, 64, 128, 256}) expect_for_model(net, {n, 784});
}

}  // namespace
}  // namespace brim

#endif
