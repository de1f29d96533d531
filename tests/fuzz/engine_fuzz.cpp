// Engines: whatever is in a file, the runtime refuses it or stays within its memory.
#include <brim_rt.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "core/hash.h"
#include "rt/format.h"

namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Block = std::unique_ptr<char, Free>;

Block block_of(size_t bytes) {
  constexpr size_t kAlign = brim::rt::kAlignment;
  return Block(static_cast<char*>(std::aligned_alloc(kAlign, (bytes / kAlign + 1) * kAlign)));
}

/// Runs take memory and time in proportion to what a file asks for, which is its right.
constexpr size_t kMaxBytes = size_t{1} << 20;

void run(brim_rt_session* session) {
  std::vector<Block> room;
  std::vector<void*> ports;
  int inputs = 0;
  const auto add = [&](const brim_rt_port& port) {
    if (port.bytes > kMaxBytes) return false;
    room.push_back(block_of(port.bytes));
    std::memset(room.back().get(), 0, port.bytes);
    ports.push_back(room.back().get());
    return true;
  };
  for (; const brim_rt_port* port = brim_rt_input(session, inputs); ++inputs)
    if (!add(*port)) return;
  for (int i = 0; const brim_rt_port* port = brim_rt_output(session, i); ++i)
    if (!add(*port)) return;
  ports.push_back(nullptr);
  (void)brim_rt_run(session, ports.data(), ports.data() + inputs, nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kMaxBytes) return 0;
  const Block file = block_of(size);
  if (size > 0) std::memcpy(file.get(), data, size);
  if (size >= sizeof(brim::rt::FileHeader)) {  // what nobody finds by chance
    auto& header = *reinterpret_cast<brim::rt::FileHeader*>(file.get());
    header.bytes = size;
    header.hash = brim::xxh64(file.get() + sizeof header, size - sizeof header);
  }
  const brim_rt_allocator allocator = {
      [](void*, size_t bytes, size_t) -> void* {
        return bytes > kMaxBytes ? nullptr : block_of(bytes).release();
      },
      [](void*, void* memory, size_t) { std::free(memory); }, nullptr};
  brim_rt_model* model = nullptr;
  if (brim_rt_open_memory(file.get(), size, &allocator, &model, nullptr)) return 0;
  for (int i = 0; const int64_t batch = brim_rt_batch(model, i); ++i) {
    const brim_rt_session_options options = {
        .batch = batch, .own_threads = 1, .threads = nullptr, .isa = nullptr};
    brim_rt_session* session = nullptr;
    if (brim_rt_session_create(model, &options, &session, nullptr)) continue;
    run(session);
    brim_rt_session_close(session);
  }
  brim_rt_close(model);
  return 0;
}
