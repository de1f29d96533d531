#include "io/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "core/check.h"
#include "core/clock.h"
#include "core/host_name.h"
#include "core/write_cure.h"
#include "io/atomic_file.h"
#include "io/regular_file.h"

namespace brim::io {
namespace {

constexpr double kFlushSeconds = 1;  // so long an event may wait for the next one

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
    table[i] = crc;
  }
  return table;
}();

/// As TFRecord stores it: files that hold checksums of their own spoil them less so.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

std::string little_endian(uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

ProtobufWriter event_now() {
  ProtobufWriter event;
  event.f64(1, unix_seconds());
  return event;
}

std::string own_name() {
  static std::atomic<int> next{0};
  std::string name = fmt::format("events.out.tfevents.{:.0f}.", unix_seconds());
  for (const char c : host_name()) name += c == '/' || c == '?' ? '_' : c;
  return name + fmt::format(".{}.{}", getpid(), next++);
}

// The framing of a record: its length and that one's checksum, the event, the event's checksum.
constexpr uint64_t kLengthBytes = 8, kCrcBytes = 4, kHeaderBytes = kLengthBytes + kCrcBytes;
constexpr int kGraphField = 4;  // of Event

uint64_t from_little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

bool has_crc(std::string_view bytes, std::string_view crc) {
  return masked_crc(bytes) == from_little_endian(crc);
}

/// Whether the first field of an event that is no number (its time, its step) is a graph. `begin`:
/// some bytes of it.
bool begins_with_graph(std::string_view begin) {
  constexpr uint8_t kVarint = 0, kFixed64 = 1, kBytes = 2, kMore = 0x80;
  while (!begin.empty()) {
    const auto tag = static_cast<uint8_t>(begin[0]);
    if ((tag & 7) == kBytes) return tag >> 3 == kGraphField;
    size_t size = 1;
    if ((tag & 7) == kFixed64) {
      size += 8;
    } else if ((tag & 7) == kVarint) {
      while (size < begin.size() && static_cast<uint8_t>(begin[size]) & kMore) ++size;
      ++size;
    } else {
      return false;
    }
    begin.remove_prefix(std::min(size, begin.size()));
  }
  return false;
}

}  // namespace

bool has_graph(const std::string& path) try {
  constexpr uint64_t kLooked = 32;  // at an event's begin
  const RegularFile file(path, "events", "TensorBoard's events");
  const auto read = [&](uint64_t at, uint64_t count) {
    std::string bytes(count, '\0');
    file.read(bytes.data(), count, at);
    return bytes;
  };
  uint64_t at = 0;
  while (file.bytes() - at >= kHeaderBytes + kCrcBytes) {
    const std::string header = read(at, kHeaderBytes),
                      length_bytes = header.substr(0, kLengthBytes);
    const uint64_t length = from_little_endian(length_bytes);
    if (!has_crc(length_bytes, header.substr(kLengthBytes))) return false;
    at += kHeaderBytes;
    if (length > file.bytes() - at - kCrcBytes) return false;
    if (begins_with_graph(read(at, std::min(length, kLooked))))
      return has_crc(read(at, length), read(at + length, kCrcBytes));
    at += length + kCrcBytes;
  }
  return false;
} catch (const FileError&) {
  return false;
}

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 255];
  return ~crc;
}

EventFile::EventFile(const std::string& folder) : path_(folder + "/" + own_name()) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("made", error.value());
  out_ = open_stream(path_, O_WRONLY | O_EXCL);
  if (!out_) fail("made", errno);
  add(event_now().text(3, "brain.Event:2"));
  flush();
}

void EventFile::add_summary(int64_t step, const ProtobufWriter& summary) {
  add(event_now().number(2, step).message(5, summary));
}

void EventFile::add_graph(const ProtobufWriter& graph) {
  add(event_now().message(kGraphField, graph));
}

void EventFile::add_restart(int64_t step) {
  constexpr int64_t kStart = 1;
  add(event_now().number(2, step).message(7, ProtobufWriter().number(1, kStart)));
}

void EventFile::add(const ProtobufWriter& event) {
  const std::string length = little_endian(event.bytes().size(), 8);
  std::string record = length + little_endian(masked_crc(length), 4) + event.bytes();
  record += little_endian(masked_crc(event.bytes()), 4);
  if (std::fwrite(record.data(), 1, record.size(), out_.get()) != record.size())
    fail("written", errno);
  if (steady_seconds() - flushed_ > kFlushSeconds) flush();
}

void EventFile::flush() {
  if (std::fflush(out_.get()) != 0) fail("written", errno);
  flushed_ = steady_seconds();
}

void EventFile::fail(const char* what, int error) const {
  raise<FileError>("[file] {} cannot be {}: {}", path_, what, write_failure(error));
}

}  // namespace brim::io
