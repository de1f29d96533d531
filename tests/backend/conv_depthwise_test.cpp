// Depthwise convolutions over nhwc images give what they give over row-major ones, in nhwc.
#include <gtest/gtest.h>

#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/conv.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "distance.h"
#include "threads.h"

namespace brim {
namespace {

using tests::distance;

struct Depthwise {
  Pair kernel;
  Conv2dOptions options;
};
const Depthwise kKinds[] = {
    {3, {.padding = 1}},
    {3, {.stride = 2, .padding = 1}},
    {{5, 3}, {.stride = {1, 3}, .padding = {4, 1}, .dilation = {2, 1}}},
    {{2, 4}, {.padding = {0, 3}}},
    {1, {}},
};

/// The result, and the gradients of x, weight and bias.
std::vector<Tensor> results(const Depthwise& kind, const Tensor& x, const Tensor& w,
                            const Tensor& b, MemoryFormat format) {
  const Tensor image = x.clone().to(format).set_requires_grad();
  const Tensor weight = w.clone().set_requires_grad(), bias = b.clone().set_requires_grad();
  Conv2dOptions options = kind.options;
  options.groups = x.size(1);
  const Tensor y = conv2d(image, weight, bias, options);
  EXPECT_TRUE(y.is_contiguous(format));
  sum(y * y.detach()).backward();
  return {y, image.grad(), weight.grad(), bias.grad()};
}

TEST(ConvDepthwise, NhwcEqualsRowMajor) {
  manual_seed(1);
  for (const Depthwise& kind : kKinds)
    for (const DType dtype : {f32, f64, bf16})
      for (const Shape& shape :
           {Shape{2, 5, 9, 8}, Shape{1, 16, 7, 12}, Shape{3, 37, 6, 9}, Shape{1, 72, 5, 11}}) {
        const TensorOptions like{.dtype = dtype};
        const Tensor x = randn(shape, like), b = randn({shape[1]}, like);
        const Tensor w = randn({shape[1], 1, kind.kernel.h, kind.kernel.w}, like);
        const auto plain = results(kind, x, w, b, MemoryFormat::nchw);
        const auto pixels = results(kind, x, w, b, MemoryFormat::nhwc);
        for (size_t i = 0; i < plain.size(); ++i) {
          const double size = max(abs(plain[i].detach().to(f64))).item();
          EXPECT_LT(distance(plain[i], pixels[i]), (dtype == bf16 ? 1e-2 : 1e-5) * size)
              << shape.str() << " " << i;
        }
      }
}

TEST(ConvDepthwise, ThreadsChangeNothing) {
  manual_seed(2);
  const Tensor x = randn({3, 40, 61, 59}), w = randn({40, 1, 3, 3}), b = randn({40});
  for (const Depthwise& kind : {kKinds[0], kKinds[1]}) {
    const auto with = [&](int count) {
      const tests::Threads threads(count);
      std::vector<std::vector<float>> all;
      for (const Tensor& t : results(kind, x, w, b, MemoryFormat::nhwc))
        all.push_back(t.to_vector<float>());
      return all;
    };
    EXPECT_EQ(with(1), with(3));
  }
}

}  // namespace
}  // namespace brim
