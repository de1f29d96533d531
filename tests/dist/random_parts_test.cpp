// The random numbers of the parts of a batch.
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/ops/dropout.h>

#include "dist/train_ranks.h"

namespace brim::dist {
namespace {

/// The ranks together drop what one does that has all samples.
TEST(RandomParts, DropoutDoesNotDependOnTheRanks) {
  for (const bool compiled : {false, true}) {
    std::vector<std::vector<double>> gradients;
    for (const int size : {1, 2, 4})
      for (const int64_t parts : {1, 2}) {
        run_ranks(local_groups(size), [&](ProcessGroup& group) {
          manual_seed(11);
          nn::Linear net({.in = 8, .out = 8});
          net.to(f64);
          DataParallel parallel(net, group.shared_from_this(), parts * size);
          const Tensor all = sin(arange(64, {.dtype = f64})).reshape({8, 8});
          const int64_t each = 8 / (size * parts);
          auto step = compile([&](const Tensor& x) {
            return parallel.forward_backward([&](int64_t part) {
              const Tensor y = net(x.slice(0, part * each, (part + 1) * each));
              return (dropout(y, 0.5) * y).mean();
            });
          });
          const auto eager = [&](const Tensor& x) {
            return parallel.forward_backward([&](int64_t part) {
              const Tensor y = net(x.slice(0, part * each, (part + 1) * each));
              return (dropout(y, 0.5) * y).mean();
            });
          };
          const int64_t first = group.rank() * each * parts;
          const Tensor own = all.slice(0, first, first + each * parts).contiguous();
          for (int i = 0; i < 5; ++i) (void)(compiled ? step(own) : eager(own));
          if (group.rank() == 0)
            gradients.push_back(net.parameters()[0].grad().to_vector<double>());
        });
        for (size_t i = 0; i < gradients[0].size(); ++i)
          ASSERT_NEAR(gradients.back()[i], gradients[0][i], 1e-14)
              << size << " ranks, " << parts << " parts each" << (compiled ? ", compiled" : "");
      }
  }
}

/// Batches of other lengths drop by themselves.
TEST(RandomParts, PartsOfOtherSizesShareNoMask) {
  Generator generator(5);
  std::vector<RandomKey> keys;
  {
    RandomParts parts(generator, 2);
    parts.begin(0);
    keys.push_back(generator.next_of_samples(400));
    parts.begin(1);
    keys.push_back(generator.next_of_samples(200));
    parts.begin(1);
    keys.push_back(generator.next_of_samples(400));
    parts.begin(1);
    keys.push_back(generator.next_of_samples(6));
  }
  EXPECT_NE(keys[0].part, keys[1].part);
  EXPECT_EQ(keys[0].part, keys[2].part);
  EXPECT_EQ(keys[2].block, 100u);
  EXPECT_EQ(keys[3].part, 1u);
  EXPECT_EQ(keys[3].block, 0u);
}

TEST(RandomParts, PartsDrawTheirOwnNumbers) {
  std::vector<std::vector<float>> drawn;
  const RandomKey before = (manual_seed(3), Generator::global().state());
  const GroupPtr group = local_groups(1)[0];
  nn::Linear net({.in = 2, .out = 1});
  DataParallel parallel(net, group, 3);
  manual_seed(3);
  const auto step = [&] {
    (void)parallel.forward_backward([&](int64_t) {
      drawn.push_back(rand({4}).to_vector<float>());
      drawn.push_back(rand({4}).to_vector<float>());
      return net(ones({1, 2})).sum();
    });
  };
  step();
  EXPECT_EQ(Generator::global().state(), (RandomKey{before.seed, before.offset + 2}));
  for (size_t i = 0; i < drawn.size(); ++i)
    for (size_t k = 0; k < i; ++k) EXPECT_NE(drawn[i], drawn[k]) << i << " and " << k;
  manual_seed(3);
  EXPECT_EQ(rand({4}).to_vector<float>(), drawn[0]);  // part 0 is as the whole
}

TEST(RandomParts, TheGeneratorGoesOnBehindThePartThatDrewMost) {
  Generator generator(7);
  {
    RandomParts parts(generator, 3);
    for (const int draws : {1, 3, 2}) {
      parts.begin(static_cast<uint64_t>(draws));
      for (int i = 0; i < draws; ++i)
        EXPECT_EQ(generator.next(),
                  (RandomKey{7, static_cast<uint64_t>(i), static_cast<uint64_t>(draws)}));
    }
    EXPECT_THROW(RandomParts inner(generator, 2), ValueError);
  }
  EXPECT_EQ(generator.next(), (RandomKey{7, 3, 0}));
}

}  // namespace
}  // namespace brim::dist
