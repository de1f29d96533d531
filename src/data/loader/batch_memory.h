// The memory that a batch is made in, and the tensors that a loop sees of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <brim/data/batch.h>
#include <brim/data/collate.h>

#include "data/dataset/sample_access.h"
#include "data/loader/state.h"

namespace brim::data {

class BatchMemory {
 public:
  /// Makes it ready for another batch. What somebody else holds is theirs, and is made anew.
  void prepare(const Loader::State& loader);
  /// Gives it back.
  void clear();
  /// Waits for copies out of it.
  void finish_copies() const;
  /// Where stacked samples write themselves to.
  const SampleRows& rows() const { return rows_; }
  /// Memory for a field of a collated batch.
  void* make(std::string_view name, DType dtype, const Shape& shape, DeviceKind kind);
  /// Gives the batch fresh handles to its samples: what the loop does to its tensors
  /// (requires_grad, hooks) ends with them.
  void open(const Loader::State& loader, Batch& batch) const;

 private:
  struct Field {
    std::string name;
    Tensor memory;  // for a full batch, or at least for a collated one
    Shape shape;    // of the collated batch
  };
  std::vector<Field> fields_;
  size_t made_ = 0;  // of a collated batch
  Tensor bytes_;     // instead of fields, where batches are raw
  SampleRows rows_;
};

/// What a collate function writes to.
class Collation final : public Collated {
 public:
  Collation(BatchMemory& memory, const Loader::State& loader)
      : memory_(memory), kind_(loader.options.target.kind) {}
  using Collated::make;
  void* make(std::string_view name, DType dtype, const Shape& shape) override {
    return memory_.make(name, dtype, shape, kind_);
  }

 private:
  BatchMemory& memory_;
  const DeviceKind kind_;
};

}  // namespace brim::data
