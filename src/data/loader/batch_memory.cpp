#include "data/loader/batch_memory.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "data/loader/batch_fields.h"

namespace brim::data {
namespace {

/// Whether nobody else holds it: the loop may have kept a tensor, or a view or a graph that holds
/// one.
bool is_ours(const Tensor& tensor) {
  return tensor.defined() && tensor.storage()->use_count() == 1;
}

Shape batch_of(int64_t n, const Shape& row) {
  Shape shape = row;
  shape.insert(0, n);
  return shape;
}

}  // namespace

void BatchMemory::prepare(const Loader::State& loader) {
  const DeviceKind kind = loader.options.target.kind;
  const int64_t n = loader.full_batch();
  if (loader.options.collate) {
    for (Field& field : fields_)
      if (!is_ours(field.memory)) field.memory = {};
    made_ = 0;
    return;
  }
  if (rows_.fields.empty()) rows_ = loader.rows;
  if (loader.options.raw) {
    if (is_ours(bytes_)) return;
    bytes_ = Tensor::empty_pinned({loader.layout().bytes(n)}, DType::u8, kind);
    const RawLayout layout = loader.layout();
    const Tensor parts[] = {layout.windows(bytes_, 1), layout.labels(bytes_, 1),
                            layout.pixels(bytes_, 1)};
    for (size_t k = 0; k < rows_.fields.size(); ++k)
      rows_.fields[k].base = static_cast<char*>(parts[k].raw());
    return;
  }
  fields_.resize(rows_.fields.size());
  for (size_t k = 0; k < fields_.size(); ++k) {
    SampleRows::Field& row = rows_.fields[k];
    Tensor& memory = fields_[k].memory;
    if (is_ours(memory)) continue;
    memory = Tensor::empty_pinned(batch_of(n, row.shape), row.dtype, kind);
    row.base = static_cast<char*>(memory.raw());
  }
}

void BatchMemory::clear() {
  fields_.clear();
  bytes_ = {};
  made_ = 0;
}

void BatchMemory::finish_copies() const {
  if (bytes_.defined()) bytes_.storage()->finish_copies();
  for (const Field& field : fields_)
    if (field.memory.defined()) field.memory.storage()->finish_copies();
}

void* BatchMemory::make(std::string_view name, DType dtype, const Shape& shape, DeviceKind kind) {
  BRIM_CHECK(!name.empty(), ValueError, "[collate] a tensor without a name; call it \"x\", say");
  for (size_t k = 0; k < made_; ++k)
    BRIM_CHECK(fields_[k].name != name, ValueError,
               "[collate] the batch has two tensors called '{}'; call one otherwise", name);
  if (fields_.size() == made_) fields_.emplace_back();
  Field& field = fields_[made_];
  field.name = name;
  field.shape = shape;
  const int64_t numel = checked_numel(shape, dtype, name);
  if (!field.memory.defined() || field.memory.dtype() != dtype || field.memory.numel() < numel) {
    // Some more, as the next batch may be somewhat longer.
    field.memory = {};
    field.memory =
        Tensor::empty_pinned({numel + std::min(numel / 8, INT64_MAX - numel)}, dtype, kind);
  }
  ++made_;
  return field.memory.raw();
}

void BatchMemory::open(const Loader::State& loader, Batch& batch) const {
  const auto n = static_cast<int64_t>(batch.samples.size());
  if (loader.options.raw) {
    const RawLayout layout = loader.layout();
    batch.x = layout.pixels(bytes_, n);
    batch.y = layout.labels(bytes_, n);
    batch.windows = layout.windows(bytes_, n);
    batch.packed = bytes_.alias({layout.bytes(n)}, {1}, 0);
    return;
  }
  const bool collated = bool(loader.options.collate);
  FieldWriter fields(batch);
  for (size_t k = 0; k < (collated ? made_ : fields_.size()); ++k) {
    const Shape shape = collated ? fields_[k].shape : batch_of(n, loader.rows.fields[k].shape);
    fields.put(collated ? fields_[k].name : loader.rows.fields[k].name,
               fields_[k].memory.alias(shape, contiguous_strides(shape), 0));
  }
  fields.finish();
}

}  // namespace brim::data
