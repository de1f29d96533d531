#include "command/with_weights.h"

#include <brim/core/allocator.h>

#include "core/check.h"

namespace brim::command {

std::unique_ptr<nn::Module> make_within(const train::WeightsFile& file, Device device,
                                        const MakeNetwork& make) {
  // An element's, blocks that are larger than their tensors and what initialisation needs included;
  // and of small networks.
  constexpr int64_t kPerElement = 16, kAtLeast = int64_t{256} << 20;
  int64_t elements = 0;
  for (const std::string& name : file.names()) elements += file.info(name).shape.numel();

  class Limit {
   public:
    Limit(Device device, int64_t bytes) : allocator_(Allocator::of(device)) {
      allocator_.release_cached();
      const MemoryStats stats = allocator_.stats();
      before_ = stats.limit;
      is_ours_ = before_ == 0 || stats.live + bytes < before_;
      if (is_ours_) allocator_.set_limit(stats.live + bytes);
    }
    ~Limit() { allocator_.set_limit(before_); }
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
        "[weights] {} holds {} numbers, and its metadata asks for a network of many more; the file "
        "is damaged ({})",
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
