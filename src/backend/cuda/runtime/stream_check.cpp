// See stream_check.h.
#include "backend/cuda/runtime/stream_check.h"

#include <fmt/core.h>

#include "core/environment.h"

namespace brim::cuda {
namespace {

thread_local constinit TouchCollection* collection = nullptr;

}  // namespace

backend::StreamChecker* checker() {
  static backend::StreamChecker* const one = []() -> backend::StreamChecker* {
    if (!environment_switch("BRIM_CUDA_CHECK")) return nullptr;
    return new backend::StreamChecker;  // never destroyed, as streams
  }();
  return one;
}

int checked_number(Stream stream) {
  constexpr int kStreams = 64;  // more than a device has
  const int number = stream.device.index * kStreams + stream.id;
  checker()->name_stream(number, fmt::format("{} stream {}", stream.device.str(), stream.id));
  return number;
}

void check_work(const Stream& stream, const char* name, std::span<const backend::Touch> touches) {
  if (collection)
    collection->touches.insert(collection->touches.end(), touches.begin(), touches.end());
  else
    checker()->work(checked_number(stream), name, touches);
}

TouchCollection::TouchCollection() : before_(collection) { collection = this; }
TouchCollection::~TouchCollection() { collection = before_; }

}  // namespace brim::cuda
