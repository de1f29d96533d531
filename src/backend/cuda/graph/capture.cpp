#include "backend/cuda/graph/capture.h"

#include <map>
#include <mutex>
#include <vector>

namespace brim::cuda {
namespace {

/// Streams to capture on, by device; as many as threads have captured at a time. Never destroyed.
class OwnStreams {
 public:
  cudaStream_t take(int device) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<cudaStream_t>& free = free_[device];
      if (!free.empty()) {
        const cudaStream_t stream = free.back();
        free.pop_back();
        return stream;
      }
    }
    const DeviceGuard guard(device);
    cudaStream_t stream = nullptr;
    BRIM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
  void give_back(int device, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    free_[device].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<cudaStream_t>> free_;
};

OwnStreams& own_streams() {
  static auto* all = new OwnStreams;
  return *all;
}

struct Captures {
  std::mutex mutex;
  int count = 0;

  void add(int more) {
    const std::lock_guard lock(mutex);
    count += more;
  }
};
Captures& captures() {
  static auto* all = new Captures;
  return *all;
}

}  // namespace

NoCapture::NoCapture() : lock_(captures().mutex) {
  if (captures().count > 0) lock_.unlock();
}

thread_local constinit const Capture* Capture::current_ = nullptr;

Capture::Capture(Stream stream) : stream_(stream), own_(own_streams().take(stream.device.index)) {
  captures().add(1);
  const cudaError_t begun = cudaStreamBeginCapture(own_, cudaStreamCaptureModeThreadLocal);
  if (begun != cudaSuccess) {
    captures().add(-1);
    own_streams().give_back(stream.device.index, own_);
  }
  check(begun, "cudaStreamBeginCapture");
  current_ = this;
}

cudaGraph_t Capture::end(cudaError_t& result) {
  cudaGraph_t graph = nullptr;
  current_ = nullptr;
  result = cudaStreamEndCapture(own_, &graph);
  own_streams().give_back(stream_.device.index, own_);
  own_ = nullptr;
  captures().add(-1);
  return graph;
}

Capture::~Capture() {
  if (!own_) return;
  cudaError_t result = cudaSuccess;
  const cudaGraph_t graph = end(result);
  (void)cudaGetLastError();
  if (graph) (void)cudaGraphDestroy(graph);
}

}  // namespace brim::cuda
