// The streams of CUDA's devices. All are non-blocking: none waits for another by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <cuda_runtime.h>

namespace brim::cuda {

/// CUDA's handles of streams, by device and by the stream's id; 0 is a device's default stream.
class Streams {
 public:
  /// Those of the process.
  static Streams& all();
  /// Throws DeviceError where there is none of this id.
  cudaStream_t at(int device, int32_t id);
  /// The id of a new one, or, when there are kMax beside the default stream, of these in turns.
  int32_t add(int device);
  /// The id of a new one that add() does not hand out.
  int32_t add_private(int device);
  /// The lowest device that anything was queued on, 0 if none.
  int first_device();
  std::vector<cudaStream_t> of(int device);

 private:
  Streams() = default;
  static constexpr size_t kMax = 32;
  std::mutex mutex_;
  std::vector<std::vector<cudaStream_t>> all_;  // by device and id
  std::vector<std::vector<int32_t>> shared_;    // by device: ids that add() hands out
  size_t turn_ = 0;
};

}  // namespace brim::cuda
