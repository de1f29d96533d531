// Buffers of the packed matrix product: taken and given back by an atomic flag each.
#include "backend/cpu/gemm/gemm_buffer.h"

#include <atomic>
#include <thread>

namespace brim::cpu {
namespace {

struct alignas(64) Flag {
  std::atomic<bool> taken{false};
};

constinit Flag flags[GemmBuffer::kCount];
alignas(64) constinit std::byte buffers[GemmBuffer::kCount][GemmBuffer::kBytes] = {};

}  // namespace

GemmBuffer::GemmBuffer() {
  // Where the thread found one last, for its cache still has it.
  static constinit thread_local int last = 0;
  index_ = last;
  for (int tries = 1; flags[index_].taken.exchange(true, std::memory_order_acquire); ++tries) {
    index_ = (index_ + 1) % kCount;
    if (tries % kCount == 0) std::this_thread::yield();
  }
  last = index_;
}

GemmBuffer::~GemmBuffer() { flags[index_].taken.store(false, std::memory_order_release); }

std::byte* GemmBuffer::data() const { return buffers[index_]; }

}  // namespace brim::cpu
