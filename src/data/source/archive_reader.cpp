// libarchive behind archive_reader.h.
#include "data/source/archive_reader.h"

#include <cstring>
#include <string_view>

#include <brim/data/image.h>
#include "core/check.h"
#include "data/file.h"
#include "data/source/unpacker.h"

#if BRIM_HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <exception>
#endif

namespace brim::data {

bool looks_like_archive(std::span<const uint8_t> bytes) {
  const auto has = [&](size_t at, std::string_view magic) {
    return bytes.size() >= at + magic.size() &&
           std::memcmp(bytes.data() + at, magic.data(), magic.size()) == 0;
  };
  return has(0, "\x1f\x8b") ||
         has(0,
             "\xfd"
             "7zXZ") ||
         has(0, "\x28\xb5\x2f\xfd") || has(257, "ustar");
}

#if BRIM_HAVE_ARCHIVE

struct ArchiveReader::Impl {
  Unpacker unpacker;
  std::span<const uint8_t> block;  // the last one that libarchive got
  int64_t taken = 0;               // bytes that libarchive got
  std::exception_ptr error;        // of the unpacker
  archive* handle = archive_read_new();

  Impl(std::span<const uint8_t> bytes, const std::string& name) : unpacker(bytes, name) {}
  ~Impl() { archive_read_free(handle); }

  std::span<const uint8_t> next() {
    block = unpacker.next();
    taken += static_cast<int64_t>(block.size());
    return block;
  }

  // libarchive's reader; no exception passes through its C.
  static la_ssize_t read(archive*, void* self, const void** to) {
    auto& impl = *static_cast<Impl*>(self);
    try {
      *to = impl.next().data();
      return static_cast<la_ssize_t>(impl.block.size());
    } catch (...) {
      impl.error = std::current_exception();
      return ARCHIVE_FATAL;
    }
  }

  // What libarchive gives as its reason, which it does not always do.
  const char* reason() const {
    if (error) std::rethrow_exception(error);
    const char* const text = archive_error_string(handle);
    return text != nullptr ? text : "unknown error";
  }
};

namespace {

// Throws unless every part of `name` is an ordinary name; returns it without "./".
std::string_view safe_name(std::string_view name, const std::string& path) {
  while (name.starts_with("./")) name.remove_prefix(2);
  bool bad = name.starts_with("/") || name.find('\0') != std::string_view::npos;
  for (size_t at = 0; at <= name.size() && !bad;) {
    const size_t end = std::min(name.find('/', at), name.size());
    bad = name.substr(at, end - at) == "..";
    at = end + 1;
  }
  if (bad) raise<FileError>("{}: entry \"{}\" points outside the archive; refused", path, name);
  return name;
}

bool hidden(std::string_view name) {
  return name.starts_with(".") || name.find("/.") != std::string_view::npos;
}

}  // namespace

void ArchiveReader::open() {
  impl_ = std::make_unique<Impl>(input_, path_);
  archive* const handle = impl_->handle;
  if (handle == nullptr) throw std::bad_alloc();
  archive_read_support_format_tar(handle);
  if (archive_read_open(handle, impl_.get(), nullptr, Impl::read, nullptr) != ARCHIVE_OK) {
    raise<FileError>("{}: {} ({})", path_,
                     looks_like_archive(input_) ? "damaged or truncated archive"
                                                : "not a tar (plain, gz, xz or zst)",
                     impl_->reason());
  }
}

ArchiveReader::~ArchiveReader() = default;

double ArchiveReader::fraction() const {
  if (input_.empty()) return 1;
  if (!impl_->unpacker.plain()) return impl_->unpacker.fraction();
  return static_cast<double>(archive_filter_bytes(impl_->handle, 0)) /
         static_cast<double>(input_.size());
}

// Checksums come last; and behind the end mark tar writes nothing but zeros, which a second tar
// that was appended is not.
void ArchiveReader::check_end() {
  const auto left = static_cast<size_t>(impl_->taken - archive_filter_bytes(impl_->handle, 0));
  auto rest = impl_->block.last(std::min(left, impl_->block.size()));
  do {
    BRIM_CHECK(std::all_of(rest.begin(), rest.end(), [](uint8_t b) { return b == 0; }), FileError,
               "{}: something follows the end mark of the tar; unpack it and pack it again", path_);
    rest = impl_->next();
  } while (!rest.empty());
}

bool ArchiveReader::read_next(std::string& name, std::span<const uint8_t>& bytes) {
  archive* const handle = impl_->handle;
  const auto damaged = [&](const char* what) {
    raise<FileError>("{}: damaged or truncated archive{}{} ({})", path_, what, name,
                     impl_->reason());
  };
  archive_entry* entry = nullptr;
  while (true) {
    if (in_entry_ && archive_read_data_skip(handle) < ARCHIVE_WARN) damaged(" in ");
    const int64_t begin = archive_filter_bytes(handle, 0);
    const int status = archive_read_next_header(handle, &entry);
    in_entry_ = status >= ARCHIVE_WARN && status != ARCHIVE_EOF;
    if (status == ARCHIVE_EOF) {
      // A tar ends with blocks of zeros. libarchive does without them, but then what was cut off
      // between two entries would be missing unnoticed.
      constexpr int64_t kBlock = 512;
      BRIM_CHECK(archive_filter_bytes(handle, 0) - begin >= kBlock, FileError,
                 "{}: truncated archive: it has no end mark{}{}; copy or download it again", path_,
                 name.empty() ? "" : " after ", name);
      check_end();
      return false;
    }
    if (status < ARCHIVE_WARN) damaged(name.empty() ? "" : " after ");
    const char* raw = archive_entry_pathname_utf8(entry);
    if (raw == nullptr) raw = archive_entry_pathname(entry);
    if (raw == nullptr) raise<FileError>("{}: an entry has no readable name", path_);
    name = safe_name(raw, path_);
    if (archive_entry_hardlink(entry) != nullptr || archive_entry_symlink(entry) != nullptr) {
      raise<FileError>("{}: entry \"{}\" is a link; links are refused, pack the files themselves",
                       path_, name);
    }
    const auto type = archive_entry_filetype(entry);
    if (type == AE_IFDIR) continue;
    if (type != AE_IFREG)
      raise<FileError>("{}: entry \"{}\" is not a regular file; refused", path_, name);
    const bool wanted =
        everything_ || has_image_extension(name) || (labels_ && name.ends_with(".cls"));
    if (wanted && !hidden(name)) break;
  }

  const int64_t size = archive_entry_size(entry);
  if (size < 0 || size > kMaxFileBytes) {
    raise<FileError>("{}: entry \"{}\" declares {} bytes, more than the limit of {}", path_, name,
                     size, kMaxFileBytes);
  }
  // The bytes are collected as they come, so a false size costs no memory.
  buffer_.clear();
  bytes = {};
  int64_t total = 0;
  while (true) {
    const void* block = nullptr;
    size_t length = 0;
    la_int64_t offset = 0;
    const int status = archive_read_data_block(handle, &block, &length, &offset);
    if (status == ARCHIVE_EOF) break;
    if (status < ARCHIVE_OK) damaged(" in ");
    if (length == 0) continue;
    if (offset != total)
      raise<FileError>("{}: entry \"{}\" is a sparse file; refused", path_, name);
    const auto* data = static_cast<const uint8_t*>(block);
    if (total == 0 && static_cast<int64_t>(length) == size) {
      bytes = {data, length};
    } else {  // libarchive reuses the block's memory for the next one
      buffer_.insert(buffer_.end(), data, data + length);
    }
    total += static_cast<int64_t>(length);
    if (total > kMaxFileBytes) raise<FileError>("{}: entry \"{}\" is too large", path_, name);
    if (total == size) break;
  }
  if (total != size)
    raise<FileError>("{}: entry \"{}\" has {} bytes of {}; truncated", path_, name, total, size);
  if (!buffer_.empty()) bytes = buffer_;
  mapped_ = !bytes.empty() && bytes.data() >= input_.data() &&
            bytes.data() + bytes.size() <= input_.data() + input_.size();
  return true;
}

#else

struct ArchiveReader::Impl {};
void ArchiveReader::open() {
  raise<FileError>(
      "{}: this build of brim cannot read archives; unpack it, or install libarchive-dev and "
      "rebuild",
      path_);
}
ArchiveReader::~ArchiveReader() = default;
bool ArchiveReader::read_next(std::string&, std::span<const uint8_t>&) { return false; }
double ArchiveReader::fraction() const { return 1; }

#endif

bool ArchiveReader::next(std::string& name, std::span<const uint8_t>& bytes) {
  try {
    if (read_next(name, bytes)) return true;
  } catch (const FileError&) {
    if (file_) file_->check();
    throw;
  }
  if (file_) file_->check();
  return false;
}

ArchiveReader::ArchiveReader(std::span<const uint8_t> bytes, std::string name, bool labels)
    : input_(bytes), path_(std::move(name)), labels_(labels) {
  open();
}

ArchiveReader::ArchiveReader(const std::string& path, bool labels)
    : file_(std::make_shared<MappedFile>(path)),
      input_(file_->bytes()),
      path_(path),
      labels_(labels) {
  open();
}

}  // namespace brim::data
