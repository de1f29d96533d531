// Contract cases of dropout and embedding.
#include <brim/ops/dropout.h>
#include <brim/ops/embedding.h>

#include <cmath>

#include <brim/ops/create.h>

#include "contract/contract.h"
#include "threads.h"

namespace brim::contract {
namespace {

CONTRACT(dropout) {  // the same generator state in every call, so the same mask
  return {.op =
              [](Tensor x) {
                Generator generator(5);
                return dropout(x, 0.4, true, &generator);
              },
          .inputs = {{{{33}}}, {{{3, 70}}}, {{{0, 3}}}, {{{}}}},
          .reference =
              [](Tensor x) {
                Generator generator(5);
                const std::vector<double> mask =
                    values(dropout(ones(x.shape()), 0.4, true, &generator));
                std::vector<double> v = values(x);
                for (size_t i = 0; i < v.size(); ++i) v[i] *= mask[i] != 0 ? 1 / 0.6 : 0;
                return array(v, x.shape());
              }};
}

TEST(Dropout, DropsTheRightShare) {
  manual_seed(3);
  const Tensor y = dropout(ones({1000, 100}), 0.25);
  const std::vector<double> v = values(y);
  int64_t kept = 0;
  for (double e : v) {
    EXPECT_TRUE(e == 0 || std::abs(e - 1 / 0.75) < 1e-6);
    kept += e != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / 1e5, 0.75, 0.006);
  EXPECT_EQ(values(dropout(ones({99}), 1)), std::vector<double>(99, 0));
}

TEST(Dropout, SameSeedSameMask) {
  const auto mask = [](int threads, DType dtype) {
    const tests::Threads guard(threads);
    manual_seed(7);
    return values(dropout(ones({50001}, {.dtype = dtype}), 0.5));
  };
  const std::vector<double> one = mask(1, f32);
  EXPECT_EQ(one, mask(3, f32));
  EXPECT_EQ(one, mask(1, f64));
  EXPECT_NE(one, values(dropout(ones({50001}), 0.5)));  // the next draw differs
}

TEST(Dropout, OffAndChecked) {
  const Tensor x = ones({3});
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
  EXPECT_TRUE(dropout(x, 0).is_same(x));
  EXPECT_THROW(dropout(x, 1.5), ValueError);
  EXPECT_THROW(dropout(ones({3}, {.dtype = i64})), DTypeError);
}

CONTRACT(embedding) {
  return {.op =
              [](Tensor w) {
                return embedding(Tensor::from<int64_t>({3, 0, 3, 1, 4, 3}, {2, 3}, w.device()), w);
              },
          .inputs = {{{{5, 7}}}, {{{6, 70}}}, {{{5, 601}}}},
          .reference =
              [](Tensor w) {
                const std::vector<double> v = values(w);
                const int64_t width = w.size(1);
                std::vector<double> y;
                for (const int id : {3, 0, 3, 1, 4, 3})
                  y.insert(y.end(), v.begin() + id * width, v.begin() + (id + 1) * width);
                return array(y, {2, 3, width});
              }};
}

TEST(Embedding, PaddingGetsNoGradient) {
  Tensor w = ones({3, 2}).set_requires_grad();
  const Tensor y = embedding(Tensor::from<int32_t>({0, 2, 2, 1}, {4}), w, -1);
  EXPECT_EQ(values(y), std::vector<double>(8, 1));
  y.backward(ones({4, 2}));
  EXPECT_EQ(values(w.grad()), (std::vector<double>{1, 1, 1, 1, 0, 0}));
}

TEST(Embedding, IdOutOfRangeNamesTheId) {
  try {
    embedding(Tensor::from<int64_t>({1, 3}, {2}), ones({3, 2}));
    FAIL();
  } catch (const IndexError& e) {
    EXPECT_NE(std::string(e.what()).find("id 3 at position 1 is out of range for 3 rows"),
              std::string::npos)
        << e.what();
  }
  EXPECT_THROW(embedding(Tensor::from<float>({1}, {1}), ones({3, 2})), DTypeError);
  EXPECT_THROW(embedding(Tensor::from<int64_t>({1}, {1}), ones({3, 2}), 3), IndexError);
  EXPECT_EQ(embedding(zeros({0}, {.dtype = i64}), ones({3, 2})).shape(), Shape({0, 2}));
}

}  // namespace
}  // namespace brim::contract
