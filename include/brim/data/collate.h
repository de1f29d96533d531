// How the samples of a batch become its tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <brim/core/dtype.h>
#include <brim/core/shape.h>
#include <brim/data/sample.h>

namespace brim::data {

/// A batch in the making.
class Collated {
 public:
  virtual ~Collated() = default;
  /// Memory for a tensor of the batch, to be written in full.
  virtual void* make(std::string_view name, DType dtype, const Shape& shape) = 0;
  /// The same of T's dtype, as elements.
  template <class T>
  std::span<T> make(std::string_view name, const Shape& shape) {
    return {static_cast<T*>(make(name, dtype_of<T>, shape)), static_cast<size_t>(shape.numel())};
  }
};

/// Makes the tensors of a batch, at least one sample, in their order. Called by several threads at
/// once. An empty function stacks: a field of shape S becomes (N, S...), written by the data set in
/// its place; all samples have the same shapes then.
using Collate = std::function<void(std::span<const Sample> samples, Collated& out)>;

/// Options of pad().
struct PadOptions {
  double value = 0;  ///< that short samples are filled up with
  std::vector<std::pair<std::string, double>> values = {};  ///< of fields that have another one
  std::string of = {};  ///< the field whose lengths are told; "": the first that has axes
  std::string lengths = "lengths";  ///< i64 (N), along its first axis; "": none
  std::string mask = {};            ///< bool (N, longest), true up to the length; "": none
  int64_t multiple_of = 1;          ///< of which the longest along each first axis is one
};

/// Stacks, after filling each field up to the largest of the batch along each axis. Throws
/// ShapeError where ranks differ.
Collate pad(const PadOptions& options = {});

/// Joins each field along its first axis, without a gap: (L1 + L2 + ..., rest...), and tells where
/// each sample begins and the last one ends in `offsets`, i64 (N + 1), of the first field that has
/// axes. Numbers are stacked. Throws ShapeError where other axes differ.
Collate pack(const std::string& offsets = "offsets");

/// What it is: "stack", "pack('offsets')". Functions of one's own are all alike.
std::string describe(const Collate& collate);

}  // namespace brim::data
