// Parses with nlohmann's event interface: it does not recurse, and it shows duplicate keys, which a
// document tree would swallow.
#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/check.h"
#include "io/text.h"

namespace brim::io {
namespace {

struct FormatType {
  std::string_view name;
  int bits;
  int dtype;  // a DType, or -1 for one that brim has not got
};

constexpr FormatType of(std::string_view name, DType t) {
  return {name, static_cast<int>(size_of(t)) * 8, static_cast<int>(t)};
}

constexpr std::array kFormatTypes = {
    of("F32", f32),
    of("F64", f64),
    of("F16", f16),
    of("BF16", bf16),
    of("I64", i64),
    of("I32", i32),
    of("I8", i8),
    of("U8", u8),
    of("BOOL", bool_),
    of("I16", DType::i16),
    of("U16", DType::u16),
    of("U32", DType::u32),
    of("U64", DType::u64),
    of("C64", DType::c64),
    of("", DType::c128),  // which the format has not got
    of("F8_E4M3", DType::f8_e4m3fn),
    of("F8_E5M2", DType::f8_e5m2),
    of("F8_E4M3FNUZ", DType::f8_e4m3fnuz),
    of("F8_E5M2FNUZ", DType::f8_e5m2fnuz),
    of("F8_E8M0", DType::f8_e8m0fnu),
    FormatType{"F6_E2M3", 6, -1},
    FormatType{"F6_E3M2", 6, -1},
    FormatType{"F4", 4, -1},
};

const FormatType* find_type(std::string_view name) {
  const auto it = std::find_if(kFormatTypes.begin(), kFormatTypes.end(), [&](const FormatType& t) {
    return t.name == name && !name.empty();
  });
  return it == kFormatTypes.end() ? nullptr : &*it;
}

/// Events of the JSON parser. Depth 0 is outside the object, 1 inside it, 2 inside a tensor's entry
/// or the metadata, 3 inside an array of an entry.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(SafeTensorsHeader& out, const std::string& path) : out_(out), path_(path) {}

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    unexpected("a number that is no integer");
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 3) unexpected("a number");
    if (field_ == "shape") {
      BRIM_CHECK(value <= uint64_t{INT64_MAX}, FileError,
                 "[safetensors] {}: tensor '{}' has a size of {}; the file is damaged", path_,
                 shortened(key_), value);
      BRIM_CHECK(entry_.shape.rank() < kMaxRank, FileError,
                 "[safetensors] {}: tensor '{}' has more than {} axes, which brim cannot hold",
                 path_, shortened(key_), kMaxRank);
      entry_.shape.push_back(static_cast<int64_t>(value));
    } else {
      if (offsets_ == 2) unexpected("a third offset");
      (offsets_++ == 0 ? entry_.offset : end_) = value;
    }
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) {
      BRIM_CHECK(out_.metadata.emplace(field_, value).second, FileError,
                 "[safetensors] {}: metadata '{}' appears twice; the file is damaged", path_,
                 shortened(field_));
    } else if (depth_ == 2 && field_ == "dtype") {
      entry_.dtype_name = value;
      seen_ |= kDType;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ > 1) unexpected("an object");
    if (++depth_ == 2) {
      in_metadata_ = key_ == "__metadata__";
      entry_ = {};
      seen_ = offsets_ = 0;
    }
    return true;
  }
  bool end_object() override {
    if (depth_-- == 2) {
      if (in_metadata_)
        had_metadata_ = true;
      else
        finish_entry();
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || (field_ != "shape" && field_ != "data_offsets"))
      unexpected("an array");
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    seen_ |= field_ == "shape" ? kShape : kOffsets;
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      key_ = value;
      BRIM_CHECK(!out_.tensors.contains(key_) && !(had_metadata_ && key_ == "__metadata__"),
                 FileError, "[safetensors] {}: '{}' appears twice; the file is damaged", path_,
                 shortened(key_));
    } else {
      field_ = value;
      const int bit = field_ == "dtype"          ? kDType
                      : field_ == "shape"        ? kShape
                      : field_ == "data_offsets" ? kOffsets
                                                 : 0;
      BRIM_CHECK(in_metadata_ || (bit != 0 && !(seen_ & bit)), FileError,
                 "[safetensors] {}: tensor '{}' has {} field '{}'; expected dtype, shape and "
                 "data_offsets, once each",
                 path_, shortened(key_), bit ? "a second" : "an unknown", shortened(field_));
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    raise<FileError>("[safetensors] {}: the header is not JSON at byte {}; the file is damaged",
                     path_, 8 + position);
  }

 private:
  enum : int { kDType = 1, kShape = 2, kOffsets = 4 };

  [[noreturn]] void unexpected(const char* what) {
    if (depth_ < 2)
      raise<FileError>(
          "[safetensors] {}: {} in the header where a tensor's entry belongs; the file is damaged",
          path_, what);
    raise<FileError>("[safetensors] {}: {} in field '{}' of '{}'; expected {}", path_, what,
                     shortened(field_), shortened(key_),
                     in_metadata_ ? "a string" : "a dtype, an array of sizes and two offsets");
  }

  void finish_entry() {
    const std::string tensor = shortened(key_);
    BRIM_CHECK(seen_ == (kDType | kShape | kOffsets) && offsets_ == 2, FileError,
               "[safetensors] {}: tensor '{}' is incomplete; expected dtype, shape and two "
               "data_offsets",
               path_, tensor);
    const FormatType* type = find_type(entry_.dtype_name);
    BRIM_CHECK(type, FileError,
               "[safetensors] {}: tensor '{}' has the unknown dtype '{}'; expected F32, BF16, I64, "
               "U8 or another of the format's",
               path_, tensor, shortened(entry_.dtype_name));
    if (type->dtype >= 0) entry_.dtype = static_cast<DType>(type->dtype);
    BRIM_CHECK(entry_.offset <= end_, FileError,
               "[safetensors] {}: tensor '{}' ends at {}, before it begins at {}; the file is "
               "damaged",
               path_, tensor, end_, entry_.offset);
    entry_.bytes = end_ - entry_.offset;
    // Sizes beside a 0 must fit together too: strides are made of them.
    int64_t bits = 1;
    bool overflow = false, empty = false;
    for (const int64_t n : entry_.shape) {
      empty |= n == 0;
      overflow |= __builtin_mul_overflow(bits, std::max<int64_t>(n, 1), &bits);
    }
    if (empty) bits = 0;
    overflow |= __builtin_mul_overflow(bits, int64_t{type->bits}, &bits);
    BRIM_CHECK(!overflow && bits % 8 == 0 && static_cast<uint64_t>(bits / 8) == entry_.bytes,
               FileError,
               "[safetensors] {}: tensor '{}' is {} {} but holds {} bytes; the file is damaged",
               path_, tensor, entry_.dtype_name, entry_.shape.str(), entry_.bytes);
    out_.names.push_back(key_);
    out_.tensors.emplace(key_, std::move(entry_));
  }

  SafeTensorsHeader& out_;
  const std::string& path_;
  int depth_ = 0;
  bool in_metadata_ = false, had_metadata_ = false;
  std::string key_, field_;
  TensorInfo entry_;
  uint64_t end_ = 0;
  int seen_ = 0, offsets_ = 0;
};

}  // namespace

std::string_view safetensors_name(DType dtype) {
  return kFormatTypes[static_cast<size_t>(dtype)].name;
}

SafeTensorsHeader parse_header(std::string_view json, uint64_t data_start, uint64_t data_bytes,
                               const std::string& path) {
  static_assert([] {
    for (int i = 0; i < kDTypeCount; ++i)
      if (kFormatTypes[static_cast<size_t>(i)].dtype != i) return false;
    return true;
  }());
  SafeTensorsHeader header;
  BRIM_CHECK(!json.empty() && json.front() == '{', FileError,
             "[safetensors] {}: the header does not begin with '{{'; this is no safetensors file",
             path);
  const size_t nul = json.find('\0');  // nlohmann takes it for the end of the text
  BRIM_CHECK(nul == std::string_view::npos, FileError,
             "[safetensors] {}: the header is not JSON at byte {}; the file is damaged", path,
             8 + nul);
  Handler handler(header, path);
  nlohmann::json::sax_parse(json.begin(), json.end(), &handler);

  std::sort(header.names.begin(), header.names.end(),
            [&](const std::string& a, const std::string& b) {
              const TensorInfo &x = header.tensors[a], &y = header.tensors[b];
              return std::tie(x.offset, x.bytes, a) < std::tie(y.offset, y.bytes, b);
            });
  uint64_t at = 0;
  for (const std::string& name : header.names) {
    TensorInfo& t = header.tensors[name];
    BRIM_CHECK(t.offset == at, FileError,
               "[safetensors] {}: tensor '{}' begins at {}, but the one before it ends at {}; the "
               "file is damaged",
               path, shortened(name), t.offset, at);
    BRIM_CHECK(t.bytes <= data_bytes - at, FileError,
               "[safetensors] {}: tensor '{}' needs {} bytes at {}, but only {} follow the header; "
               "the file is truncated",
               path, shortened(name), t.bytes, at, data_bytes);
    at += t.bytes;
    t.offset += data_start;
  }
  BRIM_CHECK(at == data_bytes, FileError,
             "[safetensors] {}: {} bytes follow the header, but its tensors take {}; the file is "
             "damaged",
             path, data_bytes, at);
  return header;
}

}  // namespace brim::io
