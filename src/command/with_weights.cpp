#include "command/with_weights.h"

#include <brim/core/allocator.h>

#include <algorithm>

#include "core/check.h"
#include "core/runtime.h"

namespace brim::command {

std::unique_ptr<nn::Module> make_within(const train::WeightsFile& file, Device device,
                                        const MakeNetwork& make) {
  // An element's, blocks that are larger than their tensors and what initialisation needs included;
  // and of small networks.
  constexpr int64_t kPerElement = 16, kAtLeast = int64_t{256} << 20;
  constexpr int64_t kMany = int64_t{1} << 40;  // views of .pth files may repeat an element
  int64_t elements = 0;
  for (const std::string& name : file.names())
    elements = std::min(kMany, elements + std::min(kMany, file.info(name).shape.numel()));

  class Limit {
   public:
    Limit(Device device, int64_t bytes) : allocator_(Allocator::of(device)) {
      allocator_.release_cached();
      const MemoryStats stats = allocator_.stats();
      before_ = stats.limit;
      is_ours_ = (before_ == 0 || stats.live + bytes < before_) &&
                 static_cast<int64_t>(runtime(device.kind).memory(device.index).free) > bytes;
      if (is_ours_) allocator_.set_limit(stats.live + bytes);
    }
    ~Limit() {
      if (is_ours_) allocator_.set_limit(before_);
    }
    /// Else what is short is the device's memory, or what the user gave of it.
    bool is_ours() const { return is_ours_; }

   private:
    Allocator& allocator_;
    int64_t before_ = 0;
    bool is_ours_ = true;
  } const limit(device, kAtLeast + kPerElement * elements);
  try {
    return make();
  } catch (const OutOfMemory& e) {
    if (!limit.is_ours()) throw;
    raise<FileError>(
        "[weights] {} holds {} numbers, and the network that they are for needs many more; name "
        "its own recipe, or else the file is damaged ({})",
        file.path(), elements, e.what());
  }
}

std::unique_ptr<nn::Module> with_weights(const train::WeightsFile& file, Device device,
                                         const MakeNetwork& make) {
  std::unique_ptr<nn::Module> network = make_within(file, device, make);
  train::load_weights(file, *network);
  return network;
}

}  // namespace brim::command
