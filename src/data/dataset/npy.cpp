// NumPy's format: a magic word, the size of a header that is a Python dictionary, the data.
#include "data/dataset/npy.h"

#include <brim/data/tables.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "data/file.h"
#include "data/mapped_file.h"
#include "data/prefetch.h"
#include "io/zip_reader.h"

namespace brim::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// The dictionary of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class Header {
 public:
  Header(std::string_view text, const std::string& name) : left_(text), name_(name) {
    take('{');
    while (!ends('}')) {
      const std::string_view key = quoted();
      take(':');
      values_[std::string(key)] = value();
      if (!ends('}')) take(',');
    }
  }
  std::string_view operator[](const char* key) const {
    const auto found = values_.find(key);
    BRIM_CHECK(found != values_.end(), FileError, "{}: the header has no {}", name_, key);
    return found->second;
  }
  /// "(3, 4)" as sizes.
  Shape shape() const {
    std::string_view text = (*this)["shape"];
    BRIM_CHECK(text.starts_with('('), FileError, "{}: a shape of '{}'; expected sizes in brackets",
               name_, text);
    Shape shape;
    for (text.remove_prefix(1); text != ")";) {
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
      BRIM_CHECK(error == std::errc() && size >= 0 && shape.rank() < kMaxRank, FileError,
                 "{}: a shape of {}; expected up to {} sizes", name_, (*this)["shape"], kMaxRank);
      shape.push_back(size);
      text.remove_prefix(static_cast<size_t>(end - text.data()));
      while (!text.empty() && (text[0] == ',' || text[0] == ' ')) text.remove_prefix(1);
    }
    return shape;
  }

 private:
  void space() {
    while (!left_.empty() && (left_[0] == ' ' || left_[0] == '\n')) left_.remove_prefix(1);
  }
  bool ends(char with) {
    space();
    return !left_.empty() && left_[0] == with;
  }
  void take(char c) {
    BRIM_CHECK(ends(c), FileError, "{}: the header is damaged; '{}' expected", name_, c);
    left_.remove_prefix(1);
  }
  std::string_view until(std::string_view end) {
    const size_t size = left_.find(end);
    BRIM_CHECK(size != std::string_view::npos, FileError, "{}: the header is cut off", name_);
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(size + end.size());
    return text;
  }
  std::string_view quoted() {
    take('\'');
    return until("'");
  }
  std::string_view value() {
    if (ends('\'')) return quoted();
    if (ends('(')) {
      const char* const begin = left_.data();
      until(")");
      return {begin, static_cast<size_t>(left_.data() - begin)};
    }
    if (ends('[')) raise<FileError>("{}: records of several fields are not read", name_);
    size_t size = 0;
    while (size < left_.size() && left_[size] != ',' && left_[size] != '}') ++size;
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(size);
    return text;
  }

  std::string_view left_;
  const std::string name_;
  std::map<std::string, std::string_view, std::less<>> values_;
};

DType dtype_called(std::string_view descr, const std::string& name) {
  constexpr std::pair<std::string_view, DType> kKnown[] = {
      {"<f4", DType::f32}, {"<f8", DType::f64},   {"<f2", DType::f16}, {"|i1", DType::i8},
      {"|u1", DType::u8},  {"|b1", DType::bool_}, {"<i2", DType::i16}, {"<i4", DType::i32},
      {"<i8", DType::i64}, {"<u2", DType::u16},   {"<u4", DType::u32}, {"<u8", DType::u64},
      {"<c8", DType::c64}, {"<c16", DType::c128}};
  for (const auto& [known, dtype] : kKnown)
    if (known == descr) return dtype;
  raise<FileError>("{}: elements of '{}'; numbers in little-endian order are read", name, descr);
}

Shape row_of(const Shape& shape) {
  Shape row = shape;
  row.erase(0);
  return row;
}

/// Arrays of equally many rows.
class Arrays : public Dataset {
 public:
  int64_t size() const override { return fields_[0].array.shape[0]; }
  void get(int64_t i, Sample& out) const override {
    for (const Field& f : fields_) {
      void* const to = out.make(f.name, f.array.dtype, f.row);
      const uint8_t* const from = f.array.data.data() + i * f.bytes;
      if (f.array.dtype == DType::bool_)  // other bytes than 0 and 1 are true, too
        std::transform(from, from + f.bytes, static_cast<uint8_t*>(to),
                       [](uint8_t byte) { return byte != 0; });
      else if (f.bytes > 0)
        std::memcpy(to, from, static_cast<size_t>(f.bytes));
    }
  }
  void prefetch(int64_t i) const noexcept override {
    for (const Field& f : fields_) data::prefetch(f.array.data.data() + i * f.bytes, f.bytes);
  }
  std::string describe(int64_t i) const override { return fmt::format("{}: row {}", path_, i); }
  bool in_memory() const override { return true; }

 protected:
  explicit Arrays(std::string path) : path_(std::move(path)) {}
  void add(const std::string& name, const NpyArray& array, const std::string& where) {
    BRIM_CHECK(!name.empty(), FileError, "{}: an array without a name", where);
    BRIM_CHECK(!array.shape.empty() && array.shape[0] > 0, FileError,
               "{}: an array of {}; expected a row for each sample", where, array.shape.str());
    BRIM_CHECK(fields_.empty() || array.shape[0] == size(), FileError,
               "{}: {} rows, and the other arrays have {}", where, array.shape[0], size());
    const Shape row = row_of(array.shape);
    fields_.push_back({name, array, row, row.numel() * static_cast<int64_t>(size_of(array.dtype))});
  }
  bool is_empty() const { return fields_.empty(); }
  const std::string path_;

 private:
  struct Field {
    std::string name;
    NpyArray array;
    Shape row;
    int64_t bytes;  // of a row
  };
  std::vector<Field> fields_;
};

class NpyFile final : public Arrays {
 public:
  explicit NpyFile(const std::string& path) : Arrays(path), file_(path) {
    with_check(file_, [&] { add("x", read_npy(file_.bytes(), path), path); });
  }
  void check() const override { file_.check(); }

 private:
  MappedFile file_;
};

class NpzFile final : public Arrays {
 public:
  explicit NpzFile(const std::string& path) : Arrays(path) {
    const io::InputBytes input(path, "npz", "an .npz file");
    const io::ZipReader zip(input);
    int64_t left = memory_budget();
    for (const auto& [name, entry] : zip.entries()) {
      const std::string where = path + ": " + name;
      BRIM_CHECK(name.ends_with(".npy"), FileError, "{}: expected arrays, in .npy files", where);
      BRIM_CHECK(!entry.compressed, FileError,
                 "{}: is compressed; write the file with numpy.savez, not savez_compressed", where);
      left -= static_cast<int64_t>(std::min<uint64_t>(entry.bytes, INT64_MAX / 2));
      BRIM_CHECK(left >= 0, FileError,
                 "{}: takes more than half of the memory; give each array a .npy file, which is "
                 "mapped",
                 where);
      auto& kept = memory_.emplace_back(entry.bytes);
      zip.read(name, entry, kept.data());
      add(name.substr(0, name.size() - 4), read_npy(kept, where), where);
    }
    BRIM_CHECK(!is_empty(), FileError, "{}: no arrays", path);
  }

 private:
  std::vector<std::vector<uint8_t>> memory_;
};

}  // namespace

NpyArray read_npy(std::span<const uint8_t> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  BRIM_CHECK(text.starts_with(kMagic) && text.size() >= 12, FileError,
             "{}: no array of NumPy's format", name);
  const uint8_t version = bytes[6];
  BRIM_CHECK(version >= 1 && version <= 3, FileError, "{}: version {} of NumPy's format", name,
             version);
  const size_t begin = version == 1 ? 10 : 12;
  size_t size = bytes[8] | static_cast<size_t>(bytes[9]) << 8;
  if (version > 1)
    size |= static_cast<size_t>(bytes[10]) << 16 | static_cast<size_t>(bytes[11]) << 24;
  BRIM_CHECK(size <= text.size() - begin, FileError, "{}: the header is cut off", name);
  const Header header(text.substr(begin, size), name);
  NpyArray array{.dtype = dtype_called(header["descr"], name), .shape = header.shape()};
  BRIM_CHECK(header["fortran_order"] == "False", FileError,
             "{}: in Fortran order; save it with numpy.ascontiguousarray", name);
  array.data = bytes.subspan(begin + size);
  auto expected = static_cast<int64_t>(size_of(array.dtype));
  bool counted = true;
  for (const int64_t n : array.shape)  // strides count an empty axis as one
    counted = counted && !__builtin_mul_overflow(expected, std::max<int64_t>(n, 1), &expected);
  if (counted && array.shape.numel() == 0) expected = 0;
  BRIM_CHECK(counted && expected == static_cast<int64_t>(array.data.size()), FileError,
             "{}: {} bytes of data for {} {}", name, array.data.size(), brim::name(array.dtype),
             array.shape.str());
  return array;
}

DatasetPtr open_npy(const std::string& path) { return std::make_shared<NpyFile>(path); }
DatasetPtr open_npz(const std::string& path) { return std::make_shared<NpzFile>(path); }

}  // namespace brim::data
