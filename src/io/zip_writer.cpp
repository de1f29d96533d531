// Headers with all sizes in front of the bytes (PKWARE APPNOTE 6.3), dated 1980-01-01 so that equal
// input gives equal bytes.
#include "io/zip_writer.h"

#include <zlib.h>

namespace brim::io {
namespace {

constexpr uint64_t kAlign = 64;
constexpr uint16_t kUtf8 = 1 << 11, kDate = 1 << 5 | 1;
constexpr uint32_t kInZip64 = 0xffffffff;  // the value is in the zip64 record

template <class... T>
void put(std::string& out, T... values) {
  (out.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
}

}  // namespace

void ZipWriter::add(std::string_view name, const void* data, uint64_t bytes) {
  const bool wide = bytes >= zip64_from_, wide_offset = at_ >= zip64_from_;
  const auto crc = static_cast<uint32_t>(crc32_z(0, static_cast<const Bytef*>(data), bytes));
  const uint32_t size = wide ? kInZip64 : static_cast<uint32_t>(bytes);
  const auto name_bytes = static_cast<uint16_t>(name.size());
  const uint16_t version = wide || wide_offset ? 45 : 20;

  std::string local;
  const uint64_t fixed = 30 + name.size() + (wide ? 20 : 0) + 4;
  const auto gap = static_cast<uint16_t>((kAlign - (at_ + fixed) % kAlign) % kAlign);
  put(local, uint32_t{0x04034b50}, version, kUtf8, uint16_t{0}, uint16_t{0}, kDate, crc, size, size,
      name_bytes, static_cast<uint16_t>((wide ? 20 : 0) + 4 + gap));
  local += name;
  if (wide) put(local, uint16_t{1}, uint16_t{16}, bytes, bytes);
  put(local, uint16_t{0x4246}, gap);  // the field that torch.save pads with
  local.append(gap, 'Z');
  file_.write(local);
  file_.write(data, bytes);

  const auto extra = static_cast<uint16_t>((wide ? 16 : 0) + (wide_offset ? 8 : 0));
  put(directory_, uint32_t{0x02014b50}, version, version, kUtf8, uint16_t{0}, uint16_t{0}, kDate,
      crc, size, size, name_bytes, static_cast<uint16_t>(extra ? extra + 4 : 0), uint16_t{0},
      uint16_t{0}, uint16_t{0}, uint32_t{0}, wide_offset ? kInZip64 : static_cast<uint32_t>(at_));
  directory_ += name;
  if (extra) put(directory_, uint16_t{1}, extra);
  if (wide) put(directory_, bytes, bytes);
  if (wide_offset) put(directory_, at_);
  at_ += local.size() + bytes;
  ++count_;
}

void ZipWriter::finish() {
  const uint64_t size = directory_.size(), end = at_ + size;
  std::string tail;
  const bool many = count_ >= 0xffff, wide = many || at_ >= zip64_from_ || size >= zip64_from_;
  if (wide) {
    put(tail, uint32_t{0x06064b50}, uint64_t{44}, uint16_t{45}, uint16_t{45}, uint32_t{0},
        uint32_t{0}, count_, count_, size, at_);
    put(tail, uint32_t{0x07064b50}, uint32_t{0}, end, uint32_t{1});
  }
  const auto count = static_cast<uint16_t>(wide ? 0xffff : count_);
  put(tail, uint32_t{0x06054b50}, uint16_t{0}, uint16_t{0}, count, count,
      wide ? kInZip64 : static_cast<uint32_t>(size), wide ? kInZip64 : static_cast<uint32_t>(at_),
      uint16_t{0});
  file_.write(directory_);
  file_.write(tail);
}

}  // namespace brim::io
