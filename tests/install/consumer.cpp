// Uses an installed brim as a user would: public headers only, and a gradient.
#include <cstdio>

#include <brim/core/tensor.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/version.h>

using namespace brim;

int main() {
  Tensor x = Tensor::from<float>({1, 2, 3}, {3});
  x.set_requires_grad(true);
  sum(x * x).backward();
  const float slope = x.grad().to_vector<float>()[2];
  std::printf("brim %s: d(x^2)/dx at 3 is %g\n", BRIM_VERSION, slope);
  return slope == 6 && stddev(x).item() == 1 ? 0 : 1;
}
