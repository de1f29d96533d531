// All fields of a batch, those with members of their own and the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <brim/data/batch.h>

namespace brim::data {

/// Calls f(name, tensor) for each that is defined.
template <class F>
void for_each_field(const Batch& batch, const F& f) {
  using namespace std::string_view_literals;
  if (batch.x.defined()) f("x"sv, batch.x);
  if (batch.y.defined()) f("y"sv, batch.y);
  for (const NamedTensor& field : batch.fields)
    if (field.tensor.defined()) f(std::string_view(field.name), field.tensor);
}

/// Gives a batch other fields; names that stay are not copied again.
class FieldWriter {
 public:
  explicit FieldWriter(Batch& batch) : batch_(batch) { batch_.x = batch_.y = {}; }
  void put(std::string_view name, Tensor tensor) {
    if (name == "x") {
      batch_.x = std::move(tensor);
    } else if (name == "y") {
      batch_.y = std::move(tensor);
    } else {
      if (count_ == batch_.fields.size()) batch_.fields.emplace_back();
      NamedTensor& field = batch_.fields[count_++];
      if (field.name != name) field.name = name;
      field.tensor = std::move(tensor);
    }
  }
  void finish() { batch_.fields.resize(count_); }

 private:
  Batch& batch_;
  size_t count_ = 0;
};

/// Throws ShapeError, with the field's name, for sizes that are none or that fit no memory.
int64_t checked_numel(const Shape& shape, DType dtype, std::string_view name);

}  // namespace brim::data
