#include <brim/nn/dropout.h>
#include <brim/ops/dropout.h>

#include "nn/layer.h"

namespace brim::nn {

Dropout::Dropout(Options o) : options(o) {
  BRIM_CHECK(0 <= o.p && o.p <= 1, ValueError, "[Dropout] p is {}; it must be in [0, 1]", o.p);
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, options.p, training()); }

std::string Dropout::options_str() const { return fmt::format("p={}", options.p); }

}  // namespace brim::nn
