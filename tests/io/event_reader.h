// Reads TensorBoard's event files, for tests: framing and checksums by its own rules, fields of
// messages by number.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace brim::tests {

/// The fields of a protobuf message: numbers as they lie there, the rest as bytes.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t tag = varint(bytes);
      const auto field = static_cast<int>(tag >> 3);
      switch (tag & 7) {
        case 0:
          numbers_[field].push_back(varint(bytes));
          break;
        case 1:
          numbers_[field].push_back(fixed<uint64_t>(bytes));
          break;
        case 5:
          numbers_[field].push_back(fixed<uint32_t>(bytes));
          break;
        case 2:
          texts_[field].push_back(take(bytes, varint(bytes)));
          break;
        default:
          ADD_FAILURE() << "wire type " << (tag & 7);
          return;
      }
    }
  }

  bool has(int field) const { return numbers_.contains(field) || texts_.contains(field); }
  int64_t number(int field) const { return static_cast<int64_t>(numbers_.at(field).at(0)); }
  double f64(int field) const { return std::bit_cast<double>(numbers_.at(field).at(0)); }
  float f32(int field) const {
    return std::bit_cast<float>(static_cast<uint32_t>(numbers_.at(field).at(0)));
  }
  const std::string& text(int field, size_t k = 0) const { return texts_.at(field).at(k); }
  size_t count(int field) const { return texts_.contains(field) ? texts_.at(field).size() : 0; }
  ProtobufReader message(int field, size_t k = 0) const { return ProtobufReader(text(field, k)); }
  std::vector<double> all_f64(int field) const {
    std::vector<double> values(text(field).size() / 8);
    std::memcpy(values.data(), text(field).data(), values.size() * 8);
    return values;
  }

 private:
  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(bytes, 1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }
  template <class T>
  static uint64_t fixed(std::string_view& bytes) {
    T value{};
    std::memcpy(&value, take(bytes, sizeof(T)).data(), sizeof(T));
    return value;
  }
  static std::string take(std::string_view& bytes, size_t count) {
    EXPECT_LE(count, bytes.size()) << "a message is cut short";
    std::string taken(bytes.substr(0, count));
    taken.resize(count);
    bytes.remove_prefix(std::min(count, bytes.size()));
    return taken;
  }

  std::map<int, std::vector<uint64_t>> numbers_;
  std::map<int, std::vector<std::string>> texts_;
};

/// CRC-32C by its definition, a bit at a time, masked as TFRecord stores it.
inline uint32_t masked_crc_of(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

/// The events of a file, each of whose checksums must be right.
inline std::vector<ProtobufReader> read_events(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  std::vector<ProtobufReader> events;
  for (size_t at = 0; at < file.size();) {
    const auto word = [&](size_t offset) {
      uint32_t value = 0;
      std::memcpy(&value, file.substr(offset, 4).c_str(), 4);
      return value;
    };
    const uint64_t length = word(at) | static_cast<uint64_t>(word(at + 4)) << 32;
    EXPECT_EQ(word(at + 8), masked_crc_of(file.substr(at, 8)));
    EXPECT_LE(at + 16 + length, file.size()) << "the file is cut short";
    if (at + 16 + length > file.size()) break;
    const std::string event = file.substr(at + 12, length);
    EXPECT_EQ(word(at + 12 + length), masked_crc_of(event));
    events.emplace_back(event);
    at += 16 + length;
  }
  return events;
}

/// The one file in a folder.
inline std::string only_file(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().string());
  EXPECT_EQ(files.size(), 1U);
  return files.empty() ? "" : files[0];
}

}  // namespace brim::tests
