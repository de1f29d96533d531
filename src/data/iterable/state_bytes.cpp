#include "data/iterable/state_bytes.h"

#include <cstring>

#include "core/check.h"
#include "core/printable.h"
#include "data/dataset/sample_access.h"

namespace brim::data {

StateWriter& StateWriter::number(int64_t value) {
  const auto word = static_cast<uint64_t>(value);
  char bytes[8];
  for (int k = 0; k < 8; ++k) bytes[k] = static_cast<char>(word >> (8 * k) & 0xff);
  bytes_.append(bytes, sizeof(bytes));
  return *this;
}

StateWriter& StateWriter::text(std::string_view value) {
  number(static_cast<int64_t>(value.size()));
  bytes_ += value;
  return *this;
}

StateWriter& StateWriter::layout(std::string_view name, DType dtype, const Shape& shape) {
  text(name).text(brim::name(dtype)).number(shape.rank());
  for (const int64_t size : shape) number(size);
  return *this;
}

StateWriter& StateWriter::sample(const Sample& sample) {
  number(static_cast<int64_t>(sample.fields().size()));
  for (const SampleField& field : sample.fields()) {
    layout(field.name, field.dtype, field.shape);
    text({static_cast<const char*>(field.data), static_cast<size_t>(field.bytes())});
  }
  return *this;
}

StateReader::StateReader(std::string_view bytes, std::string_view kind)
    : left_(bytes), kind_(kind) {
  const std::string_view written = text();
  BRIM_CHECK(written == kind, ValueError,
             "[data] a state of '{}', where '{}' is now; build the data set as it was",
             printable(written.substr(0, 80)), kind);
}

void StateReader::damaged() const {
  raise<ValueError>("[data] this is no state of '{}', or a damaged one", kind_);
}

std::string_view StateReader::taken(size_t bytes) {
  if (bytes > left_.size()) damaged();
  const std::string_view part = left_.substr(0, bytes);
  left_.remove_prefix(bytes);
  return part;
}

int64_t StateReader::number() {
  uint64_t word = 0;
  const std::string_view bytes = taken(8);
  for (size_t k = 0; k < 8; ++k) word |= uint64_t{static_cast<uint8_t>(bytes[k])} << (8 * k);
  if (word > INT64_MAX / 2) damaged();
  return static_cast<int64_t>(word);
}

std::string_view StateReader::text() { return taken(static_cast<size_t>(number())); }

StateReader::Layout StateReader::layout() {
  Layout field{.name = std::string(text()), .dtype = DType::f32, .shape = {}, .bytes = 0};
  try {
    field.dtype = parse_dtype(text());
  } catch (const DTypeError&) {
    damaged();
  }
  const int64_t rank = number();
  if (rank > kMaxRank || field.name.empty()) damaged();
  field.bytes = static_cast<int64_t>(size_of(field.dtype));
  for (int64_t k = 0; k < rank; ++k) {
    field.shape.push_back(number());
    if (__builtin_mul_overflow(field.bytes, field.shape.back(), &field.bytes)) damaged();
  }
  return field;
}

void StateReader::sample(Sample& out) {
  SampleAccess::begin(out, 0);
  for (int64_t fields = number(); fields > 0; --fields) {
    const Layout field = layout();
    const std::string_view values = text();
    if (values.size() != static_cast<size_t>(field.bytes)) damaged();
    void* const to = out.make(field.name, field.dtype, field.shape);
    if (!values.empty()) std::memcpy(to, values.data(), values.size());
  }
}

void StateReader::same(std::string_view what, int64_t now) {
  const int64_t before = number();
  BRIM_CHECK(before == now, ValueError,
             "[data] the state is of '{}' whose {} was {}, and now it is {}; build the data set as "
             "it was",
             kind_, what, before, now);
}

void StateReader::end() const {
  if (!left_.empty()) damaged();
}

}  // namespace brim::data
