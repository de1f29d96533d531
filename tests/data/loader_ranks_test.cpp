// What each of several ranks gets of an epoch.
#include <brim/core/error.h>
#include <brim/data/loader.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace brim::data {
namespace {

struct Numbers final : Dataset {
  int64_t size() const override { return 50; }
  void get(int64_t i, Sample& out) const override { out.set("x", i); }
};

std::vector<int64_t> samples_of(const Loader& loader) {
  std::vector<int64_t> samples;
  for (const Batch& b : loader.epoch(1))
    samples.insert(samples.end(), b.samples.begin(), b.samples.end());
  return samples;
}

TEST(LoaderRanks, ShareOneOrder) {
  const std::shared_ptr<const Dataset> data = std::make_shared<Numbers>();
  const std::vector<int64_t> whole = samples_of(Loader(data, {.batch = 12, .multiple_of = 4}));
  EXPECT_EQ(whole.size(), 52u);
  EXPECT_EQ(whole[50], whole[0]);
  EXPECT_EQ(whole[51], whole[1]);
  for (const int ranks : {2, 4}) {
    std::vector<int64_t> dealt(52);
    const size_t batch = 12 / static_cast<size_t>(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const LoaderOptions options = {
          .batch = 12 / ranks, .rank = rank, .world_size = ranks, .multiple_of = 4};
      const Loader loader(data, options);
      EXPECT_EQ(loader.samples(), 52 / ranks);
      EXPECT_EQ(loader.batches(), 5);
      const std::vector<int64_t> part = samples_of(loader);
      for (size_t i = 0; i < part.size(); ++i) {
        const size_t k = i / batch, size = k < 4 ? batch : 4 / static_cast<size_t>(ranks);
        dealt[k * 12 + static_cast<size_t>(rank) * size + i % batch] = part[i];
        EXPECT_EQ(loader.sample_at(1, static_cast<int64_t>(i)), part[i]);
      }
    }
    EXPECT_EQ(dealt, whole) << ranks;
  }
  const Loader full(data, {.batch = 6, .drop_last = true, .rank = 1, .world_size = 2});
  EXPECT_EQ(full.batches(), 4);
  EXPECT_THROW(Loader(data, {.multiple_of = 0}), ValueError);
}

}  // namespace
}  // namespace brim::data
