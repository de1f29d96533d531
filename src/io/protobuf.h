// The wire format of Protocol Buffers (protobuf.dev, "Encoding"), written: enough for small
// messages whose fields are known by number. Nothing is read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace brim::io {

/// A message, field by field.
class ProtobufWriter {
 public:
  ProtobufWriter& number(int field, int64_t value) {
    tag(field, Wire::varint);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  ProtobufWriter& f64(int field, double value) {
    tag(field, Wire::fixed64);
    little_endian(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  ProtobufWriter& f32(int field, float value) {
    tag(field, Wire::fixed32);
    little_endian(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  ProtobufWriter& text(int field, std::string_view value) {
    tag(field, Wire::bytes);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufWriter& message(int field, const ProtobufWriter& value) {
    return text(field, value.bytes_);
  }
  /// The begin of a field whose `size` bytes the caller writes behind it.
  ProtobufWriter& begin(int field, size_t size) {
    tag(field, Wire::bytes);
    varint(size);
    return *this;
  }
  /// A packed repeated field.
  ProtobufWriter& all_f64(int field, std::span<const double> values) {
    tag(field, Wire::bytes);
    varint(values.size() * 8);
    for (const double value : values) little_endian(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  void tag(int field, Wire wire) {
    varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
  }
  void varint(uint64_t value) {
    for (; value > 0x7f; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void little_endian(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }

  std::string bytes_;
};

}  // namespace brim::io
