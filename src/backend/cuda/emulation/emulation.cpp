// Blocks of threads as fibers (Boost.Context). A fiber runs until it reaches a barrier, then the
// next one does; a barrier opens when all threads that have not ended have come to it.
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#if defined(__SANITIZE_ADDRESS__)
#define BRIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BRIM_ASAN 1
#endif
#endif
#if BRIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace brim::cuda::emulation {

thread_local constinit Position position;

namespace {

namespace context = boost::context;

constexpr size_t kStackBytes = size_t{256} << 10;

/// BRIM_EMULATED_BACKWARDS: blocks and threads run in the opposite order. What they compute must
/// not depend on it.
bool backwards() {
  static const bool result = std::getenv("BRIM_EMULATED_BACKWARDS") != nullptr;
  return result;
}

/// Opens when `expected` threads have arrived.
struct Barrier {
  int expected = 0, arrived = 0;
  int64_t opened = 0;
  unsigned left = 0, left_when_opened = 0;  // of a warp's: the lanes whose threads have ended

  void open_if_all_are_here() {
    if (arrived == 0 || arrived < expected) return;
    arrived = 0;
    left_when_opened = left;
    ++opened;
  }
};

struct Warp {
  Barrier barrier;
  int size = 0;
  alignas(16) unsigned char slots[2][kWarp * 16] = {};  // used in turns
};

/// Stacks are used again: in a new one, each page that a thread touches costs a page fault, which
/// was most of the time of a small block. An allocator of Boost.Context's.
class Stacks {
 public:
  context::stack_context allocate() {
    if (free_.stacks.empty()) return context::fixedsize_stack(kStackBytes).allocate();
    const context::stack_context stack = free_.stacks.back();
    free_.stacks.pop_back();
#if BRIM_ASAN
    // Of the frames that the fiber before it never left.
    __asan_unpoison_memory_region(static_cast<char*>(stack.sp) - stack.size, stack.size);
#endif
    return stack;
  }
  void deallocate(context::stack_context& stack) noexcept { free_.stacks.push_back(stack); }

 private:
  struct Free {
    std::vector<context::stack_context> stacks;
    ~Free() {
      for (context::stack_context& stack : stacks)
        context::fixedsize_stack(kStackBytes).deallocate(stack);
    }
  };
  static thread_local Free free_;
};

thread_local Stacks::Free Stacks::free_;

/// Where a fiber's stack lies, for AddressSanitizer, which has to be told of every switch.
struct Stack {
  void* fake = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;

  void leave_for(const Stack& other, bool for_ever = false) {
#if BRIM_ASAN
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake, other.bottom, other.size);
#else
    (void)other, (void)for_ever;
#endif
  }
  void arrive(Stack* from) {
#if BRIM_ASAN
    const void* bottom_before = nullptr;
    size_t size_before = 0;
    __sanitizer_finish_switch_fiber(fake, &bottom_before, &size_before);
    if (from) from->bottom = bottom_before, from->size = size_before;
#else
    (void)from;
#endif
  }
};

struct Fiber {
  Position at;
  Warp* warp = nullptr;
  context::fiber self, scheduler;
  Stack stack;
  Barrier* waits_for = nullptr;
  int64_t opened = 0;  // of that barrier, when it was reached
  int turn = 0;        // of the warp's slots
  bool ended = false;

  bool can_run() const { return !ended && (!waits_for || waits_for->opened != opened); }
};

/// A block whose threads take turns.
class Block {
 public:
  Block(Position first, const std::function<void()>& body, size_t shared_bytes)
      : body_(body), shared_(shared_bytes / sizeof(std::max_align_t) + 1) {
    std::memset(shared_.data(), 0xff, shared_bytes);  // NaN: what was there before is no zero
    const dim3 n = first.threads;
    const int count = static_cast<int>(n.x * n.y * n.z);
    block_.expected = count;
    warps_ = std::vector<Warp>(static_cast<size_t>((count + kWarp - 1) / kWarp));
    fibers_ = std::vector<Fiber>(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      Fiber& fiber = fibers_[static_cast<size_t>(i)];
      const auto u = static_cast<unsigned>(i);
      fiber.at = first;
      fiber.at.thread = {u % n.x, u / n.x % n.y, u / n.x / n.y};
      fiber.warp = &warps_[static_cast<size_t>(i / kWarp)];
      fiber.warp->size = ++fiber.warp->barrier.expected;
    }
  }

  void run() {
    for (Fiber& fiber : fibers_) start(fiber);
    // Backwards every other time: what depends on the order of threads has no barrier it needs.
    bool forward = !backwards();
    for (bool moved = true; moved; forward = !forward) {
      moved = false;
      for (size_t i = 0; i < fibers_.size(); ++i) {
        Fiber& fiber = fibers_[forward ? i : fibers_.size() - 1 - i];
        if (!fiber.can_run()) continue;
        resume(fiber);
        moved = true;
      }
    }
    size_t stuck = 0;
    for (const Fiber& fiber : fibers_) stuck += !fiber.ended;
    if (error_) std::rethrow_exception(error_);
    if (stuck > 0)
      throw std::logic_error("[cuda emulation] " + std::to_string(stuck) +
                             " threads of a block wait at a barrier that others never reach");
  }

  void wait(Barrier& barrier) {
    Fiber& me = *running_;
    me.waits_for = &barrier;
    me.opened = barrier.opened;
    ++barrier.arrived;
    barrier.open_if_all_are_here();
    if (!me.can_run()) leave(me, false);
    me.waits_for = nullptr;
  }

  Barrier& barrier() { return block_; }
  Fiber& running() { return *running_; }
  void* shared() { return shared_.data(); }

 private:
  void start(Fiber& fiber) {
    Stacks allocator;
    context::stack_context stack = allocator.allocate();
    fiber.stack.bottom = static_cast<char*>(stack.sp) - stack.size;
    fiber.stack.size = stack.size;
    fiber.self =
        context::fiber(std::allocator_arg, context::preallocated(stack.sp, stack.size, stack),
                       allocator, [this, &fiber](context::fiber&& from) {
                         fiber.stack.arrive(&scheduler_);
                         fiber.scheduler = std::move(from);
                         try {
                           body_();
                         } catch (...) {
                           if (!error_) error_ = std::current_exception();
                         }
                         end(fiber);
                         fiber.stack.leave_for(scheduler_, true);
                         return std::move(fiber.scheduler);
                       });
  }

  void resume(Fiber& fiber) {
    running_ = &fiber;
    position = fiber.at;
    scheduler_.leave_for(fiber.stack);
    fiber.self = std::move(fiber.self).resume();
    scheduler_.arrive(nullptr);
  }

  void leave(Fiber& fiber, bool for_ever) {
    fiber.stack.leave_for(scheduler_, for_ever);
    fiber.scheduler = std::move(fiber.scheduler).resume();
    fiber.stack.arrive(&scheduler_);
  }

  /// Nobody waits for a thread that has ended.
  void end(Fiber& fiber) {
    fiber.ended = true;
    fiber.warp->barrier.left |= 1u << lane();
    for (Barrier* barrier : {&block_, &fiber.warp->barrier}) {
      --barrier->expected;
      barrier->open_if_all_are_here();
    }
  }

  const std::function<void()>& body_;
  std::vector<std::max_align_t> shared_;
  std::vector<Warp> warps_;
  std::vector<Fiber> fibers_;
  Barrier block_;
  Fiber* running_ = nullptr;
  Stack scheduler_;
  std::exception_ptr error_;
};

thread_local constinit Block* block [[gnu::tls_model("initial-exec")]] = nullptr;

Block& running_block() {
  if (!block)
    throw std::logic_error(
        "[cuda emulation] a barrier or shuffle in a kernel that `launch` runs; use launch_blocks");
  return *block;
}

// How often threads that this one has run began a kernel.
thread_local constinit uint64_t begun = 0;

/// Calls f with each place in `size`.
template <class F>
void for_each(dim3 size, const F& f) {
  const bool back = backwards();
  const auto at = [back](unsigned i, unsigned n) { return back ? n - 1 - i : i; };
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x) f(uint3{at(x, size.x), at(y, size.y), at(z, size.z)});
}

}  // namespace

void run_threads(dim3 blocks, dim3 threads, const std::function<void()>& body) {
  for_each(blocks, [&](uint3 in_grid) {
    for_each(threads, [&](uint3 in_block) {
      position = {in_block, in_grid, threads, blocks};
      body();
    });
  });
}

void run_blocks(dim3 blocks, dim3 threads, size_t shared_bytes, const std::function<void()>& body) {
  static std::mutex one;  // as the blocks of a kernel share its __shared__ variables
  const std::lock_guard lock(one);
  for_each(blocks, [&](uint3 in_grid) {
    Block current({{}, in_grid, threads, blocks}, body, shared_bytes);
    block = &current;
    try {
      current.run();
    } catch (...) {
      block = nullptr;
      throw;
    }
    block = nullptr;
  });
}

void begin_kernel() { ++begun; }
void expect_begun(dim3 blocks, dim3 threads, const std::function<void()>& run) {
  const uint64_t before = begun;
  run();
  const uint64_t all = uint64_t{blocks.x} * blocks.y * blocks.z * threads.x * threads.y * threads.z;
  if (begun - before != all)
    throw std::logic_error(
        "[cuda emulation] of a kernel's " + std::to_string(all) + " threads " +
        std::to_string(begun - before) +
        " have called begin_kernel(): it is the first statement of every kernel");
}
void* shared_memory() { return running_block().shared(); }
void block_barrier() { running_block().wait(running_block().barrier()); }
void warp_barrier() { running_block().wait(running_block().running().warp->barrier); }
const unsigned char* gather_warp(unsigned mask, const void* value, size_t bytes) {
  Fiber& me = running_block().running();
  // With two sets of slots one barrier is enough: all have read this set when its next turn comes.
  unsigned char* const slots = me.warp->slots[me.turn ^= 1];
  std::memcpy(slots + size_t{16} * static_cast<size_t>(lane()), value, bytes);
  running_block().wait(me.warp->barrier);
  if (const unsigned left = mask & me.warp->barrier.left_when_opened)
    throw std::logic_error("[cuda emulation] a shuffle or vote names lane " +
                           std::to_string(std::countr_zero(left)) +
                           " of its warp, whose thread has ended");
  return slots;
}
int warp_size() { return running_block().running().warp->size; }
int lane() {
  const Position& at = position;
  return static_cast<int>(
      (at.thread.x + at.threads.x * (at.thread.y + at.threads.y * at.thread.z)) % kWarp);
}

}  // namespace brim::cuda::emulation
