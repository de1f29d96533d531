// The batches that a device loader gives, read, and devices that feed a loop at once and paced.
#pragma once

#include <brim/core/sim.h>
#include <brim/data/device_loader.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "data/pictures.h"

namespace brim::data::tests {

struct Seen {
  int64_t index;
  Shape shape;
  std::vector<float> x;
  std::vector<int64_t> y, samples;
  bool operator==(const Seen&) const = default;
};

inline Seen seen(const Batch& batch) {
  return {batch.index, batch.x.shape(), batch.x.to_vector<float>(), batch.y.to_vector<int64_t>(),
          batch.samples};
}

/// All batches. The numbers are read at the end, as a loop does.
template <class Batches>
std::vector<Seen> all_of(Batches&& batches) {
  std::vector<Batch> kept;
  for (const Batch& batch : batches)
    kept.push_back({.x = batch.x.clone(),
                    .y = batch.y.clone(),
                    .index = batch.index,
                    .samples = batch.samples});
  std::vector<Seen> result;
  for (const Batch& batch : kept) result.push_back(seen(batch));
  return result;
}

inline std::vector<Seen> expected(const Loader& loader, int64_t epoch, int64_t first = 0) {
  return all_of(loader.epoch(epoch, first));
}

/// Over devices of a profile; "": that are not paced.
class OnSimProfiles : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_sim_options({.profile = GetParam(), .check = true}); }
  void TearDown() override {
    synchronize(Device::sim(0));
    set_sim_options({});
  }
};

}  // namespace brim::data::tests
