// Iterable data sets: any number of workers gives the same batches, and an epoch goes on from its
// state to the bit, whatever the data set is made of.
#include <brim/data/iterable.h>

#include <brim/data/device_loader.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/iterables.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::data {
namespace {

using namespace brim::tests;

struct IterableCase {
  std::string name;
  std::function<IterablePtr()> make;
  Collate collate;
};

/// Everything that data sets are made of, alone and together.
std::vector<IterableCase> cases(const std::string& folder) {
  const std::string text = write_lines(folder + "/lines.txt", 61);
  const auto shards = [] {
    std::vector<std::function<IterablePtr()>> parts;
    for (const int64_t size : {17, 0, 3, 30}) parts.push_back([size] { return walk(size); });
    return chain(std::move(parts));
  };
  const auto broken = [] {
    const auto data = walk();
    data->before = [](int64_t i, Sample& out) {
      if (i % 10 == 3) throw std::runtime_error("broken");
      if (i == 20 || i == 21) out.set("z", 1.0f);
    };
    return data;
  };
  return {
      {"own", [] { return walk(); }, {}},
      {"padded", [] { return walk(61, true); }, pad()},
      {"packed", [] { return shuffled(walk(61, true), 9, 3); }, pack()},
      {"mapped", [] { return noisy(noisy(walk())); }, {}},
      {"shuffled", [] { return shuffled(walk(), 16, 5); }, {}},
      {"shuffled whole", [] { return shuffled(walk(), 1000); }, {}},
      {"shuffled mapped", [] { return shuffled(noisy(walk()), 16, 5); }, {}},
      {"taken", [] { return take(noisy(walk()), 23); }, {}},
      {"sharded", [] { return noisy(shuffled(sharded(walk(), 1, 3), 5)); }, {}},
      {"chain", shards, {}},
      {"chain of chains",
       [shards] {
         return shuffled(chain({shards, [] { return noisy(walk(9)); }}), 7);
       },
       pad()},
      {"lines", [text] { return open_lines(text); }, pad()},
      {"broken", broken, {}},
      {"broken and shuffled", [broken] { return noisy(shuffled(broken(), 8)); }, pad()},
  };
}

class Iterable : public ::testing::Test {
 protected:
  Loader loader(const IterableCase& of, int workers, bool drop_last = false) const {
    LoaderOptions options = options_of(workers);
    options.on_error = OnError::skip;
    options.collate = of.collate;
    options.drop_last = drop_last;
    options.seed = 7;
    return Loader(of.make(), options);
  }
  const TemporaryFolder folder_;
  const std::vector<IterableCase> cases_ = cases(folder_.path());
};

TEST_F(Iterable, AnyNumberOfWorkersGivesTheSame) {
  for (const IterableCase& of : cases_) {
    for (const bool drop_last : {false, true}) {
      const Loader one = loader(of, 0, drop_last);
      const Pass first = pass_of(one, 0), second = pass_of(one, 1);
      EXPECT_GE(first.samples.size(), 4U) << of.name;
      for (const int workers : {1, 2, 5, 16}) {
        const Loader many = loader(of, workers, drop_last);
        EXPECT_EQ(pass_of(many, 0), first) << of.name << ", " << workers << " workers";
        EXPECT_EQ(pass_of(many, 1), second) << of.name << ", " << workers << " workers";
        EXPECT_EQ(many.skipped(), one.skipped()) << of.name;
      }
    }
  }
}

TEST_F(Iterable, GoesOnFromEachBatch) {
  for (const IterableCase& of : cases_) {
    const Loader whole = loader(of, 3);
    std::vector<std::string> states;
    std::vector<Pass> batches;
    Epoch epoch = whole.epoch(1);
    states.push_back(epoch.state());
    while (const Batch* batch = epoch.next()) {
      batches.emplace_back();
      add(batches.back(), *batch);
      states.push_back(epoch.state());
    }
    for (size_t k = 0; k < states.size(); ++k) {
      const Loader rest = loader(of, k % 2 == 0 ? 0 : 2);
      Epoch again = rest.epoch(1, states[k]);
      size_t at = k;
      while (const Batch* batch = again.next()) {
        Pass now;
        add(now, *batch);
        ASSERT_LT(at, batches.size()) << of.name;
        EXPECT_EQ(now, batches[at++]) << of.name << ", from batch " << k;
        EXPECT_EQ(again.state(), states[at]) << of.name << ", from batch " << k;
      }
      EXPECT_EQ(at, batches.size()) << of.name << ", from batch " << k;
    }
  }
}

TEST_F(Iterable, WithoutAStateItIsReadFromTheBeginning) {
  for (const IterableCase& of : cases_) {
    const Loader whole = loader(of, 0);
    std::vector<Pass> batches;
    std::vector<int64_t> index;
    for (const Batch& batch : whole.epoch(0)) {
      add(batches.emplace_back(), batch);
      index.push_back(batch.index);
    }
    for (const size_t k : {size_t{1}, size_t{3}}) {
      const Loader rest = loader(of, 2);
      size_t at = k;
      for (const Batch& batch : rest.epoch(0, index[k])) {
        Pass now;
        add(now, batch);
        EXPECT_EQ(now, batches[at++]) << of.name;
      }
      EXPECT_EQ(at, batches.size()) << of.name;
    }
  }
}

TEST_F(Iterable, FeedsDevices) {
  for (const IterableCase& of : cases_) {
    const Loader host = loader(of, 2);
    const Pass expected = pass_of(host, 0);
    for (const Device device : {Device::cpu(), Device::sim(0)}) {
      const Loader from = loader(of, 2);
      DeviceLoader feed(from, device);
      EXPECT_EQ(pass_of(feed, 0), expected) << of.name;
      // The loader that the feed was made of tells the state of its batches, too.
      std::string state;
      int64_t behind = 0;
      for (const Batch& batch : feed.epoch(0)) {
        behind = batch.index + 1;
        state = from.state(0, behind);
        if (behind > 2) break;
      }
      Pass expected_rest, rest_of_feed;
      Epoch rest = loader(of, 0).epoch(0, state);
      while (const Batch* batch = rest.next()) add(expected_rest, *batch);
      const Loader other = loader(of, 1);
      other.load_state(state);
      DeviceLoader again(other, device);
      for (const Batch& batch : again.epoch(0, behind)) add(rest_of_feed, batch);
      EXPECT_EQ(rest_of_feed, expected_rest) << of.name;
    }
  }
}

TEST(IterableDevices, ShareABatch) {
  const Loader loader(noisy(shuffled(walk(), 8)), options_of(2));
  const Pass whole = pass_of(loader, 0);
  DeviceLoader feed(loader, {Device::sim(0), Device::sim(1)});
  Pass joined;
  for (const Batch& batch : feed.epoch(0)) {
    std::vector<int64_t> samples;
    for (const Batch& part : batch.parts) {
      EXPECT_EQ(part.x.size(0), static_cast<int64_t>(part.samples.size()));
      Pass one;
      add(one, part);
      for (const auto& [name, values] : one.values)
        joined.values[name].insert(joined.values[name].end(), values.begin(), values.end());
      samples.insert(samples.end(), part.samples.begin(), part.samples.end());
    }
    joined.samples.push_back(samples);
  }
  EXPECT_EQ(joined.values, whole.values);
  EXPECT_EQ(joined.samples, whole.samples);
}

std::vector<int64_t> numbers(const Loader& loader, int64_t epoch = 0) {
  std::vector<int64_t> all;
  for (const Batch& batch : loader.epoch(epoch))
    for (const int64_t y : batch.y.to_vector<int64_t>()) all.push_back(y);
  return all;
}

TEST(IterableOrder, IsThatOfTheDataSet) {
  EXPECT_EQ(numbers({walk(10), options_of(3)}), range(10));
  EXPECT_EQ(numbers({walk(10), options_of(3)}, 2), range(10, 2000));
  EXPECT_EQ(numbers({take(walk(10), 5), options_of(3)}), range(5));
  EXPECT_EQ(numbers({take(walk(10), 50), options_of(3)}), range(10));
  EXPECT_EQ(numbers({take(walk(1'000'000'000'000), 9), options_of(3)}), range(9));
  EXPECT_TRUE(numbers({walk(0), options_of(3)}).empty());
  EXPECT_TRUE(numbers({take(walk(10), 0), options_of(0)}).empty());
  EXPECT_EQ(numbers({chain({[] { return walk(3); }, [] { return walk(2); }}), options_of(3)}),
            (std::vector<int64_t>{0, 1, 2, 0, 1}));
  LoaderOptions full = options_of(2);
  full.drop_last = true;
  EXPECT_EQ(numbers({walk(10), full}), range(8));
  EXPECT_EQ(numbers({walk(8), full}), range(8));
  EXPECT_TRUE(numbers({walk(3), full}).empty());
}

TEST(IterableOrder, IsShuffledByBufferEpochAndSeed) {
  const auto drawn = [](int64_t buffer, uint64_t seed, int64_t epoch = 0) {
    std::vector<int64_t> all = numbers({shuffled(walk(200), buffer, seed), options_of(2)}, epoch);
    for (int64_t& y : all) y -= 1000 * epoch;
    return all;
  };
  const std::vector<int64_t> first = drawn(20, 1);
  std::vector<int64_t> sorted = first;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, range(200));
  EXPECT_NE(first, range(200));
  for (size_t k = 0; k < first.size(); ++k)
    EXPECT_LT(first[k], static_cast<int64_t>(k) + 20);  // no further ahead than the buffer
  EXPECT_EQ(drawn(20, 1), first);
  EXPECT_NE(drawn(20, 2), first);
  EXPECT_NE(drawn(20, 1, 1), first);
  EXPECT_EQ(drawn(1, 1), range(200));
}

TEST(IterableOrder, RanksTakeTurnsAndHaveEquallyMany) {
  std::vector<double> noise;
  for (const int rank : {0, 1, 2}) {
    const auto expected = range(20, rank, 3);  // 61 samples: the last one is left out
    EXPECT_EQ(numbers({sharded(walk(), rank, 3), options_of(2)}), expected);
    LoaderOptions options = options_of(2);
    options.rank = rank, options.world_size = 3;
    const Loader loader(noisy(walk()), options);
    EXPECT_EQ(numbers(loader), expected);
    const Pass pass = pass_of(loader, 0);
    EXPECT_EQ(pass.samples[1], range(4, 12 + rank, 3));
    const std::vector<double>& drawn = pass.values.at("noise");
    noise.insert(noise.end(), drawn.begin(), drawn.end());
  }
  std::ranges::sort(noise);
  EXPECT_EQ(std::ranges::adjacent_find(noise), noise.end());  // each sample draws for itself
}

TEST(IterableOrder, RanksGoOnFromTheStateOfOne) {
  const auto make = [](int rank) {
    LoaderOptions options = options_of(1);
    options.rank = rank, options.world_size = 2;
    return Loader(noisy(shuffled(walk(), 8)), options);
  };
  Epoch zero = make(0).epoch(0);
  for (int k = 0; k < 3; ++k) ASSERT_NE(zero.next(), nullptr);
  Pass rest;
  Epoch goes_on = make(1).epoch(0, zero.state());
  while (const Batch* batch = goes_on.next()) add(rest, *batch);
  EXPECT_EQ(rest, pass_of(make(1), 0, 3));
  // Samples of one rank in a buffer are no other rank's.
  Epoch own = Loader(shuffled(sharded(walk(), 0, 2), 8), options_of(1)).epoch(0);
  ASSERT_NE(own.next(), nullptr);
  const std::string state = own.state();
  EXPECT_EQ(message_of<ValueError>([&] {
              (void)Loader(shuffled(sharded(walk(), 1, 2), 8), options_of(1)).epoch(0, state);
            }),
            "[data] the state is of 'sharded' whose rank was 0, and now it is 1; build the data "
            "set as it was");
}

TEST(IterableOrder, ADataSetGoesOnByTheSameCalls) {
  const Loader loader(table(20), {.batch = 4, .workers = 1, .seed = 3});
  Epoch epoch = loader.epoch(2);
  ASSERT_NE(epoch.next(), nullptr);
  ASSERT_NE(epoch.next(), nullptr);
  EXPECT_EQ(epoch.state(), loader.state(2, 2));
  Pass rest;
  Epoch again = loader.epoch(2, epoch.state());
  while (const Batch* batch = again.next()) add(rest, *batch);
  EXPECT_EQ(rest, pass_of(loader, 2, 2));
}

}  // namespace
}  // namespace brim::data
