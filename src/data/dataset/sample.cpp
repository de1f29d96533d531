#include <brim/data/dataset.h>
#include <brim/data/iterable.h>
#include <brim/data/sample.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "data/dataset/sample_access.h"
#include "data/keyed.h"
#include "data/loader/batch_fields.h"

namespace brim::data {
namespace {

template <class Fields>
std::string names_of_fields(const Fields& fields) {
  std::string names;
  for (const auto& field : fields) names += (names.empty() ? "" : ", ") + field.name;
  return names.empty() ? "none" : names;
}

}  // namespace

uint64_t KeyedRandom::next() { return mix64(state_ += kSplitMixStep); }

void SampleField::check(DType wanted) const {
  BRIM_CHECK(dtype == wanted, DTypeError, "field '{}' is {}, not {}", name, brim::name(dtype),
             brim::name(wanted));
}

Sample::Sample() = default;
Sample::~Sample() = default;
Sample::Sample(Sample&&) noexcept = default;
Sample& Sample::operator=(Sample&&) noexcept = default;

SampleField& Sample::field_for(std::string_view name) {
  // As a rule the fields come as they did in the sample before.
  if (count_ < fields_.size() && fields_[count_].name == name) return fields_[count_++];
  const auto made = std::ranges::find(
      fields_.begin(), fields_.begin() + static_cast<int64_t>(count_), name, &SampleField::name);
  if (made != fields_.begin() + static_cast<int64_t>(count_)) return *made;
  BRIM_CHECK(!name.empty(), ValueError, "a field without a name; call it \"x\", say");
  const auto known = std::ranges::find(made, fields_.end(), name, &SampleField::name);
  const auto k = static_cast<size_t>(known - fields_.begin());
  if (known == fields_.end()) {
    fields_.push_back({.name = std::string(name)});
    memory_.emplace_back();
  }
  std::swap(fields_[count_], fields_[k]);
  std::swap(memory_[count_], memory_[k]);
  return fields_[count_++];
}

void* Sample::make(std::string_view name, DType dtype, const Shape& shape) {
  SampleField& field = field_for(name);
  const auto k = static_cast<size_t>(&field - fields_.data());
  field.dtype = dtype;
  field.shape = shape;
  if (!rows_) {
    std::vector<std::byte>& memory = memory_[k];
    const auto bytes = static_cast<size_t>(checked_numel(shape, dtype, name)) * size_of(dtype);
    if (memory.size() < bytes) memory.resize(bytes);
    return field.data = memory.data();
  }
  const auto& rows = rows_->fields;
  const SampleRows::Field* row = k < rows.size() ? &rows[k] : nullptr;
  if (!row || row->name != name) {
    const auto found = std::ranges::find(rows, name, &SampleRows::Field::name);
    BRIM_CHECK(found != rows.end(), ShapeError, "field '{}' is new; other samples have {}", name,
               names_of_fields(rows));
    row = &*found;
  }
  BRIM_CHECK(row->dtype == dtype && row->shape == shape, ShapeError,
             "field '{}' is {} {}, in other samples {} {}; where they differ in length, give "
             "LoaderOptions::collate data::pad()",
             name, brim::name(dtype), shape.str(), brim::name(row->dtype), row->shape.str());
  return field.data = row->base + row_ * row->bytes;
}

void Sample::set(std::string_view name, const Tensor& value) {
  BRIM_CHECK(value.device().is_cpu(), DeviceError, "field '{}' lies on {}; samples lie on the CPU",
             name, value.device().str());
  const Tensor dense = value.contiguous();
  const size_t bytes = static_cast<size_t>(dense.numel()) * size_of(dense.dtype());
  void* const to = make(name, dense.dtype(), dense.shape());
  if (bytes > 0) std::memcpy(to, dense.raw(), bytes);
}

void Sample::set(const SampleField& field) {
  void* const to = make(field.name, field.dtype, field.shape);
  if (const auto bytes = static_cast<size_t>(field.bytes())) std::memcpy(to, field.data, bytes);
}

std::shared_ptr<void>& Sample::scratch_of(const void* owner, const std::type_info& type) {
  for (Scratch& s : scratch_)
    if (s.owner == owner && *s.type == type) return s.value;
  return scratch_.emplace_back(Scratch{owner, &type, nullptr}).value;
}

Sample& Sample::inner(const void* owner) {
  auto& sample = scratch<Sample>(owner);
  SampleAccess::begin(sample, 0);
  sample.outer_ = this;
  return sample;
}

std::string Sample::describe() const {
  if (outer_) return outer_->describe();
  if (iterable_) return fmt::format("sample {} of {}", index_, iterable_->describe());
  return data_ ? data_->describe(index_) : "a sample";
}

const SampleField* Sample::find(std::string_view name) const {
  const auto found = std::ranges::find(fields(), name, &SampleField::name);
  return found == fields().end() ? nullptr : &*found;
}

const SampleField& Sample::operator[](std::string_view name) const {
  const SampleField* const field = find(name);
  BRIM_CHECK(field, IndexError, "no field '{}'; there are {}", name, names_of_fields(fields()));
  return *field;
}

void SampleAccess::begin(Sample& sample, uint64_t key, const SampleRows* rows, int64_t row) {
  sample.count_ = 0;
  sample.rows_ = rows;
  sample.row_ = row;
  sample.key_ = key;
  sample.random_ = KeyedRandom(key);
}

void SampleAccess::swap_values(Sample& a, Sample& b) {
  a.fields_.swap(b.fields_);
  a.memory_.swap(b.memory_);
  std::swap(a.count_, b.count_);
}

void SampleAccess::begin_after(const Sample& in, Sample& out) {
  begin(out, in.key_);
  out.random_ = in.random_;
  out.data_ = in.data_;
  out.iterable_ = in.iterable_;
  out.index_ = in.index_;
}

void SampleAccess::hand_over(Sample& from, Sample& to) {
  begin_after(from, to);
  swap_values(from, to);
}

void SampleAccess::draw_apart(Sample& sample, uint64_t part) {
  if (sample.outer_) return draw_apart(*sample.outer_, part);
  sample.key_ = key64(sample.key_, 0x72616e6b, part);
  sample.random_ = KeyedRandom(sample.key_);
}

void SampleAccess::check_row(const Sample& sample) {
  if (!sample.rows_ || sample.count_ == sample.rows_->fields.size()) return;
  for (const SampleRows::Field& field : sample.rows_->fields)
    BRIM_CHECK(sample.find(field.name), ShapeError, "field '{}' is missing; other samples have it",
               field.name);
}

void SampleAccess::check_like(const Sample& sample, const SampleRows& others) {
  bool alike = sample.fields().size() == others.fields.size();
  for (const SampleRows::Field& other : others.fields) {
    const SampleField* const field = sample.find(other.name);
    alike =
        alike && field && field->dtype == other.dtype && field->shape.rank() == other.shape.rank();
  }
  BRIM_CHECK(alike, ShapeError, "{}: its fields are not those of other samples", sample.describe());
}

SampleRows SampleAccess::rows(const Sample& sample) {
  SampleRows rows;
  for (const SampleField& f : sample.fields())
    rows.fields.push_back({f.name, f.dtype, f.shape, f.bytes()});
  return rows;
}

}  // namespace brim::data
