#include <brim/nn/container.h>

#include "core/check.h"

namespace brim::nn {

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& [name, child] : children()) y = (*child)(y);
  return y;
}

Module& Sequential::operator[](size_t index) const {
  BRIM_CHECK(index < size(), IndexError, "[Sequential] there is no module {}, only {}", index,
             size());
  return *children()[index].second;
}

}  // namespace brim::nn
