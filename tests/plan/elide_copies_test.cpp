// Products and copies that are written where a copy would put them.
#include <gtest/gtest.h>

#include <algorithm>

#include <brim/brim.h>

#include "plan/plan.h"

namespace brim::plan {
namespace {

using MovedBody = std::function<Tensor(const Tensor&)>;

Program moved_program(const MovedBody& body, const Tensor& x) {
  return record([&](std::span<const Tensor> in) { return std::vector<Tensor>{body(in[0])}; },
                {&x, 1}, false)
      .program;
}

int64_t copies(const Program& program) {
  return std::count_if(program.launches.begin(), program.launches.end(),
                       [](const auto& launch) { return is(*launch, "copy"); });
}

/// Compiled with this pass alone, `body` has so many copies fewer, and the same result.
void expect_elided(const MovedBody& body, const Tensor& x, int64_t fewer, double tolerance = 0) {
  Program p = moved_program(body, x);
  const int64_t before = copies(p);
  elide_copies(p);
  EXPECT_EQ(before - copies(p), fewer);
  const Tensor want = body(x);
  for (const char* passes : {"elide_copies", "elide_copies,memory", ""}) {
    auto step = compile(MovedBody(body), {.passes = passes});
    for (int i = 0; i < 3; ++i)
      EXPECT_LE(max(abs(step(x).to(f64) - want.to(f64))).item(), tolerance) << passes << "\n"
                                                                            << step.explain();
  }
}

TEST(ElideCopies, HeadsAreMerged) {
  const Tensor w = randn({2, 3, 8, 4});
  for (const DType dtype : {f32, f64, bf16}) {
    const Tensor weights = w.to(dtype);
    // (2, 3, 5, 8) x (2, 3, 8, 4), seen as (2, 5, 3 * 4)
    expect_elided(
        [&](const Tensor& x) {
          return matmul(x, weights).transpose(1, 2).contiguous().reshape({2, 5, 12});
        },
        randn({2, 3, 5, 8}).to(dtype), 1);
  }
}

TEST(ElideCopies, ProductsAreWrittenTransposed) {
  const Tensor w = randn({7, 40});
  expect_elided([&](const Tensor& x) { return matmul(x, w).t().contiguous(); }, randn({33, 7}), 1,
                1e-5);
  expect_elided([&](const Tensor& x) { return matmul(x, w.slice(1, 0, 2)).t().contiguous(); },
                randn({33, 7}), 1, 1e-5);
  expect_elided(
      [&](const Tensor& x) {
        return matmul(x, w).permute({2, 0, 1}).contiguous();
      },
      randn({3, 1, 7}), 1, 1e-5);
}

TEST(ElideCopies, PartsOfOneTensor) {
  const Tensor a = randn({4, 6}), b = randn({4, 6}), c = randn({4, 2});
  const MovedBody body = [&](const Tensor& x) {
    Tensor whole = Tensor::empty({5, 14});
    whole.slice(1, 0, 6).copy_(matmul(x, a));
    whole.slice(1, 6, 12).copy_(matmul(x, b));
    whole.slice(1, 12, 14).copy_(matmul(x, c));
    return whole.t().contiguous() * 2;  // all of it is moved once more
  };
  expect_elided(body, randn({5, 4}), 4, 1e-5);
}

TEST(ElideCopies, AxesThatFollowEachOther) {
  const Tensor w = randn({3, 10});
  expect_elided(
      [&](const Tensor& x) {
        // The rows of the product are two axes of the copy.
        return matmul(x, w).reshape({4, 6, 2, 5}).permute({2, 0, 1, 3}).contiguous();
      },
      randn({24, 3}), 0);
  expect_elided(
      [&](const Tensor& x) {
        return matmul(x, w).reshape({4, 6, 10}).permute({2, 0, 1}).contiguous();
      },
      randn({24, 3}), 1, 1e-5);
}

TEST(ElideCopies, StayWhereOthersLook) {
  const Tensor w = randn({6, 6});
  expect_elided(
      [&](const Tensor& x) {  // the product is read as it is, too
        const Tensor y = matmul(x, w);
        return y.t().contiguous() + y;
      },
      randn({6, 6}), 0, 1e-5);
  expect_elided(
      [&](const Tensor& x) {  // what the copy overwrites is read in between
        Tensor to = w.clone();
        const Tensor y = matmul(x, x), before = sum(to, {0});
        to.copy_(y.t());
        return to + before;
      },
      randn({6, 6}), 0, 1e-5);
  expect_elided(
      [&](const Tensor& x) {  // written in between, where the copy overwrites it
        Tensor to = zeros({6, 6});
        const Tensor y = matmul(x, w);
        to.slice(0, 1, 3).copy_(x.slice(0, 0, 2));
        to.slice(0, 2, 4).copy_(y.slice(0, 0, 2));
        return to + sum(y);
      },
      randn({6, 6}), 0, 1e-5);
  expect_elided([&](const Tensor& x) { return matmul(x, w).to(f64).t().contiguous(); },
                randn({6, 6}), 1, 1e-5);  // the copy; the cast before it stays
  Tensor kept = zeros({6, 6});
  expect_elided(
      [&](const Tensor& x) {  // the product reads what the copy writes
        kept.copy_(x);
        kept.copy_(matmul(kept, w).t());
        return kept + 1;
      },
      randn({6, 6}), 0, 1e-5);
}

}  // namespace
}  // namespace brim::plan
