// group_norm over nhwc images gives what it gives over row-major ones, with any number of threads.
#include <gtest/gtest.h>

#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>

#include "distance.h"
#include "threads.h"

namespace brim {
namespace {

/// The result, and the gradients of x, weight and bias.
std::vector<Tensor> results(const Tensor& x, int64_t groups, MemoryFormat format) {
  manual_seed(7);
  const TensorOptions like{.dtype = x.dtype()};
  const Tensor image = x.clone().to(format).set_requires_grad();
  const Tensor w = randn({x.size(1)}, like).set_requires_grad();
  const Tensor b = randn({x.size(1)}, like).set_requires_grad();
  const Tensor y = group_norm(image, groups, w, b);
  EXPECT_TRUE(y.is_contiguous(format));
  sum(y * randn(x.shape(), like)).backward();
  return {y, image.grad(), w.grad(), b.grad()};
}

TEST(GroupNormFormat, NhwcEqualsRowMajor) {
  for (const DType dtype : {f32, f64})
    for (const Shape& shape : {Shape{2, 6, 5, 7}, Shape{3, 66, 9, 8}, Shape{1, 6, 190, 70}})
      for (const int64_t groups : {1, 3, 6}) {
        manual_seed(1);
        const Tensor x = randn(shape, {.dtype = dtype}) * 3 + 20;
        const auto plain = results(x, groups, MemoryFormat::nchw);
        const auto pixels = results(x, groups, MemoryFormat::nhwc);
        for (size_t i = 0; i < plain.size(); ++i)
          EXPECT_LT(tests::distance(plain[i], pixels[i]), i < 2 ? 2e-5 : 3e-3)
              << shape.str() << " " << groups << " " << i;
      }
}

TEST(GroupNormFormat, ThreadsChangeNothing) {
  manual_seed(2);
  const Tensor x = randn({2, 24, 77, 81});
  for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
    const auto with = [&](int count) {
      const tests::Threads threads(count);
      std::vector<std::vector<float>> all;
      for (const Tensor& t : results(x, 4, format)) all.push_back(t.to_vector<float>());
      return all;
    };
    EXPECT_EQ(with(1), with(3));
  }
}

}  // namespace
}  // namespace brim
