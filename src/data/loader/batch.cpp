#include <brim/data/batch.h>

#include <algorithm>

#include "core/check.h"
#include "data/loader/batch_fields.h"

namespace brim::data {

const Tensor& Batch::operator[](std::string_view name) const {
  if (name == "x" && x.defined()) return x;
  if (name == "y" && y.defined()) return y;
  for (const NamedTensor& field : fields)
    if (field.name == name) return field.tensor;
  std::string names;
  for_each_field(*this, [&](std::string_view known, const Tensor&) {
    names.append(names.empty() ? "" : ", ").append(known);
  });
  raise<IndexError>("[loader] the batch has no field '{}'; it has {}", name,
                    names.empty() ? "none" : names);
}

int64_t checked_numel(const Shape& shape, DType dtype, std::string_view name) {
  auto bytes = static_cast<int64_t>(size_of(dtype));
  bool counted = true;
  for (const int64_t size : shape)  // strides count an empty axis as one
    counted =
        counted && size >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  BRIM_CHECK(counted, ShapeError, "field '{}': {} is no shape", name, shape.str());
  return shape.numel();
}

}  // namespace brim::data
