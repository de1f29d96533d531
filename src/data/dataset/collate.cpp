#include <brim/data/collate.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/check.h"

namespace brim::data {
namespace {

/// The field of the first sample, in each of them.
std::vector<const SampleField*> in_all(std::span<const Sample> samples, const SampleField& field) {
  std::vector<const SampleField*> all;
  for (const Sample& sample : samples) {
    const SampleField* const other = sample.find(field.name);
    BRIM_CHECK(other, ShapeError, "[collate] {} has no field '{}', and {} has one",
               sample.describe(), field.name, samples[0].describe());
    BRIM_CHECK(other->dtype == field.dtype && other->shape.rank() == field.shape.rank(), ShapeError,
               "[collate] field '{}' is {} {} in {}, and {} {} in {}", field.name,
               name(field.dtype), field.shape.str(), samples[0].describe(), name(other->dtype),
               other->shape.str(), sample.describe());
    all.push_back(other);
  }
  return all;
}

void check_same_fields(std::span<const Sample> samples) {
  for (const Sample& sample : samples)
    for (const SampleField& field : sample.fields())
      BRIM_CHECK(samples[0].find(field.name), ShapeError,
                 "[collate] {} has a field '{}', and {} has none", sample.describe(), field.name,
                 samples[0].describe());
}

Shape with_axis(int64_t size, const Shape& rest, int first_axis) {
  Shape shape = {size};
  for (int axis = first_axis; axis < rest.rank(); ++axis) shape.push_back(rest[axis]);
  return shape;
}

/// The field whose lengths are told: `wanted`, or the first that has axes; null for none.
const SampleField* field_with_length(const Sample& sample, const std::string& wanted) {
  if (!wanted.empty()) {
    const SampleField& field = sample[wanted];
    BRIM_CHECK(!field.shape.empty(), ShapeError, "[collate] field '{}' is a number, without length",
               wanted);
    return &field;
  }
  const auto fields = sample.fields();
  const auto found =
      std::ranges::find_if(fields, [](const SampleField& f) { return !f.shape.empty(); });
  return found == fields.end() ? nullptr : &*found;
}

/// The bytes of `value` in `dtype`. Throws ValueError where it has no such value.
std::vector<std::byte> bytes_of(double value, DType dtype) {
  std::vector<std::byte> bytes(size_of(dtype));
  const auto put = [&](auto v) { std::memcpy(bytes.data(), &v, sizeof(v)); };
  const auto put_integer = [&]<class T>(T) {
    // The bounds are exact in double, but for the upper ones of 64 bits, which are beyond.
    const double least = static_cast<double>(std::numeric_limits<T>::min());
    const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
    BRIM_CHECK(value >= least && value < beyond && value == std::floor(value), ValueError,
               "[collate] {} cannot be filled up with {}", name(dtype), value);
    put(static_cast<T>(value));
  };
  switch (dtype) {
    case DType::f32:
      put(static_cast<float>(value));
      break;
    case DType::f64:
      put(value);
      break;
    case DType::f16:
      put(Half(static_cast<float>(value)));
      break;
    case DType::bf16:
      put(BFloat16(static_cast<float>(value)));
      break;
    case DType::i64:
      put_integer(int64_t{});
      break;
    case DType::i32:
      put_integer(int32_t{});
      break;
    case DType::i16:
      put_integer(int16_t{});
      break;
    case DType::i8:
      put_integer(int8_t{});
      break;
    case DType::u64:
      put_integer(uint64_t{});
      break;
    case DType::u32:
      put_integer(uint32_t{});
      break;
    case DType::u16:
      put_integer(uint16_t{});
      break;
    case DType::u8:
      put_integer(uint8_t{});
      break;
    case DType::bool_:
      put(value != 0);
      break;
    default:
      BRIM_CHECK(value == 0, ValueError, "[collate] {} is filled up with 0 alone, not with {}",
                 name(dtype), value);
  }
  return bytes;
}

void fill(std::byte* to, int64_t count, std::span<const std::byte> value) {
  if (std::ranges::all_of(value, [](std::byte b) { return b == std::byte{0}; })) {
    std::memset(to, 0, static_cast<size_t>(count) * value.size());
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to, value.data(), value.size());
    to += value.size();
  }
}

/// Copies an array into the corner of a larger one of the same rank, whose rest is filled.
class Padding {
 public:
  /// `value` counts where something is missing.
  Padding(const Shape& to, DType dtype, double value, bool is_needed)
      : to_(to),
        value_(bytes_of(is_needed ? value : 0, dtype)),
        size_(static_cast<int64_t>(size_of(dtype))) {}

  std::byte* copy(const std::byte* from, const Shape& shape, std::byte* to, int axis = 0) const {
    int64_t rest = 1;  // elements behind the axis, of the larger one
    for (int k = axis + 1; k < to_.rank(); ++k) rest *= to_[k];
    bool dense = true;  // behind the axis
    for (int k = axis + 1; k < to_.rank(); ++k) dense = dense && to_[k] == shape[k];
    if (axis == to_.rank() || dense) {
      const int64_t bytes = (axis == to_.rank() ? 1 : shape[axis] * rest) * size_;
      if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
      to += bytes;
    } else {
      int64_t step = size_;
      for (int k = axis + 1; k < shape.rank(); ++k) step *= shape[k];
      for (int64_t i = 0; i < shape[axis]; ++i) to = copy(from + i * step, shape, to, axis + 1);
    }
    if (axis == to_.rank()) return to;
    const int64_t missing = (to_[axis] - shape[axis]) * rest;
    fill(to, missing, value_);
    return to + missing * size_;
  }

 private:
  const Shape to_;
  const std::vector<std::byte> value_;
  const int64_t size_;
};

class Pad {
 public:
  explicit Pad(PadOptions options) : options_(std::move(options)) {
    BRIM_CHECK(options_.multiple_of >= 1 && options_.multiple_of <= INT32_MAX, ValueError,
               "[collate] lengths a multiple of {}; must be 1 to {}", options_.multiple_of,
               INT32_MAX);
  }

  std::string describe() const {
    std::string text = fmt::format("pad(value {}", options_.value);
    for (const auto& [field, value] : options_.values)
      text += fmt::format(", {} of '{}'", value, field);
    return text + fmt::format(", of '{}', lengths '{}', mask '{}', multiple_of {})", options_.of,
                              options_.lengths, options_.mask, options_.multiple_of);
  }
  void operator()(std::span<const Sample> samples, Collated& out) const {
    check_same_fields(samples);
    const auto n = static_cast<int64_t>(samples.size());
    for (const SampleField& field : samples[0].fields()) {
      const auto all = in_all(samples, field);
      const Shape longest = longest_of(all);
      auto* to =
          static_cast<std::byte*>(out.make(field.name, field.dtype, with_axis(n, longest, 0)));
      const bool is_needed =
          std::ranges::any_of(all, [&](const SampleField* one) { return one->shape != longest; });
      const Padding padding(longest, field.dtype, value_of(field.name), is_needed);
      for (const SampleField* one : all)
        to = padding.copy(static_cast<const std::byte*>(one->data), one->shape, to);
    }
    tell_lengths(samples, out);
  }

 private:
  Shape longest_of(const std::vector<const SampleField*>& all) const {
    Shape longest = all[0]->shape;
    for (const SampleField* one : all)
      for (int k = 0; k < longest.rank(); ++k) longest[k] = std::max(longest[k], one->shape[k]);
    if (longest.rank() > 0)
      longest[0] =
          (longest[0] + options_.multiple_of - 1) / options_.multiple_of * options_.multiple_of;
    return longest;
  }
  double value_of(const std::string& name) const {
    for (const auto& [field, value] : options_.values)
      if (field == name) return value;
    return options_.value;
  }
  void tell_lengths(std::span<const Sample> samples, Collated& out) const {
    if (options_.lengths.empty() && options_.mask.empty()) return;
    const SampleField* const of = field_with_length(samples[0], options_.of);
    if (!of) return;
    const auto all = in_all(samples, *of);
    const auto n = static_cast<int64_t>(samples.size());
    if (!options_.lengths.empty()) {
      const auto lengths = out.make<int64_t>(options_.lengths, {n});
      for (size_t i = 0; i < all.size(); ++i) lengths[i] = all[i]->shape[0];
    }
    if (!options_.mask.empty()) {
      const int64_t longest = longest_of(all)[0];
      bool* to = out.make<bool>(options_.mask, {n, longest}).data();
      for (const SampleField* one : all)
        for (int64_t k = 0; k < longest; ++k) *to++ = k < one->shape[0];
    }
  }

  const PadOptions options_;
};

class Pack {
 public:
  explicit Pack(std::string offsets) : offsets_(std::move(offsets)) {}
  std::string describe() const { return fmt::format("pack('{}')", offsets_); }

  void operator()(std::span<const Sample> samples, Collated& out) const {
    check_same_fields(samples);
    const auto n = static_cast<int64_t>(samples.size());
    for (const SampleField& field : samples[0].fields()) {
      const auto all = in_all(samples, field);
      int64_t length = field.shape.empty() ? n : 0;
      for (size_t i = 0; i < all.size(); ++i) {
        const Shape& shape = all[i]->shape;
        for (int k = 1; k < shape.rank(); ++k)
          BRIM_CHECK(shape[k] == field.shape[k], ShapeError,
                     "[collate] field '{}' is {} in {} and {} in {}; they are joined along the "
                     "first axis alone",
                     field.name, field.shape.str(), samples[0].describe(), shape.str(),
                     samples[i].describe());
        BRIM_CHECK(shape.empty() || !__builtin_add_overflow(length, shape[0], &length), ShapeError,
                   "[collate] field '{}' is longer than can be counted", field.name);
      }
      auto* to = static_cast<std::byte*>(
          out.make(field.name, field.dtype, with_axis(length, field.shape, 1)));
      for (const SampleField* one : all) {
        if (one->bytes() > 0) std::memcpy(to, one->data, static_cast<size_t>(one->bytes()));
        to += one->bytes();
      }
    }
    const SampleField* const of = field_with_length(samples[0], "");
    if (!of || offsets_.empty()) return;
    const auto all = in_all(samples, *of);
    const auto offsets = out.make<int64_t>(offsets_, {n + 1});
    offsets[0] = 0;
    for (size_t i = 0; i < all.size(); ++i) offsets[i + 1] = offsets[i] + all[i]->shape[0];
  }

 private:
  const std::string offsets_;
};

}  // namespace

Collate pad(const PadOptions& options) { return Pad(options); }
Collate pack(const std::string& offsets) { return Pack(offsets); }

std::string describe(const Collate& collate) {
  if (!collate) return "stack";
  if (const auto* const padding = collate.target<Pad>()) return padding->describe();
  if (const auto* const packing = collate.target<Pack>()) return packing->describe();
  return "a function of one's own";
}

}  // namespace brim::data
