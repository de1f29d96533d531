// A file mapped read-only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <brim/core/error.h>

namespace brim::data {

/// Movable; the bytes stay where they are. Bytes that the file loses after it was mapped, because
/// it is cut or its disk fails, are zeros from then on instead of a SIGBUS, and check() throws.
class MappedFile {
 public:
  MappedFile();
  /// Throws FileError.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  std::span<const uint8_t> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  /// To be called after bytes were used: throws FileError if they may have been lost ones.
  void check() const;

 private:
  struct Map;
  std::string path_;
  std::span<const uint8_t> bytes_;
  std::unique_ptr<const Map> map_;
};

/// Runs `body`, which uses mapped bytes of `owner`, and checks them. Lost ones may look like
/// damage: then it is check() that tells.
template <class Owner, class Body>
void with_check(const Owner& owner, const Body& body) {
  try {
    body();
    owner.check();
  } catch (const FileError&) {
    owner.check();
    throw;
  }
}

}  // namespace brim::data
