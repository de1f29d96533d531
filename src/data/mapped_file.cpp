// Reading a page that its file has lost raises SIGBUS. The handler puts zeros there, notes it, and
// leaves every other SIGBUS to whoever handled them before.
#include "data/mapped_file.h"

#include <signal.h>  // sigaction is POSIX
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "core/check.h"
#include "data/descriptor.h"

namespace brim::data {
namespace {

/// One map, for the handler, which may look at any time: never freed, changed only by being used
/// up. Maps are few.
struct Region {
  uintptr_t begin, end;
  std::atomic<bool> mapped{true}, lost{false};
  Region* next;
};

constinit std::atomic<Region*> regions{nullptr};
struct sigaction former_action {};

bool put_zeros(uintptr_t at) {
  for (Region* r = regions.load(std::memory_order_acquire); r != nullptr; r = r->next) {
    if (at < r->begin || at >= r->end || !r->mapped.load(std::memory_order_acquire)) continue;
    r->lost.store(true, std::memory_order_release);
    // What follows in the file is lost, too.
    const uintptr_t page = at - (at - r->begin) % static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    return ::mmap(reinterpret_cast<void*>(page), r->end - page, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool done =
      info->si_code == BUS_ADRERR && put_zeros(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = error;
  if (done) return;
  if ((former_action.sa_flags & SA_SIGINFO) != 0)
    return former_action.sa_sigaction(signal, info, context);
  if (former_action.sa_handler != SIG_DFL && former_action.sa_handler != SIG_IGN)
    return former_action.sa_handler(signal);
  ::sigaction(signal, &former_action, nullptr);
  ::raise(signal);  // on return: the process ends as it would have without this handler
}

Region* add_region(const void* data, size_t size) {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(SIGBUS, &action, &former_action);
  });
  const auto begin = reinterpret_cast<uintptr_t>(data);
  auto* const region = new Region{.begin = begin, .end = begin + size, .next = regions.load()};
  while (!regions.compare_exchange_weak(region->next, region)) {
  }
  return region;
}

}  // namespace

struct MappedFile::Map {
  std::span<const uint8_t> bytes;
  dev_t device;
  ino_t inode;
  Region* region;

  ~Map() {
    region->mapped = false;
    ::munmap(const_cast<uint8_t*>(bytes.data()), bytes.size());
  }
};

MappedFile::MappedFile() = default;
MappedFile::MappedFile(MappedFile&&) noexcept = default;
MappedFile& MappedFile::operator=(MappedFile&&) noexcept = default;
MappedFile::~MappedFile() = default;

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file(path);
  if (file.size() == 0) return;
  const auto size = static_cast<size_t>(file.size());
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) raise<FileError>("{}: cannot map: {}", path, std::strerror(errno));
  bytes_ = {static_cast<const uint8_t*>(data), size};
  map_.reset(new Map{bytes_, file.info.st_dev, file.info.st_ino, add_region(data, size)});
}

void MappedFile::check() const {
  if (!map_) return;
  // The end of a last page that is cut reads as zeros without a signal. What is at the path now may
  // be another file, which is none of our business.
  struct stat info {};
  const bool shorter = ::stat(path_.c_str(), &info) == 0 && info.st_dev == map_->device &&
                       info.st_ino == map_->inode &&
                       static_cast<size_t>(info.st_size) < bytes_.size();
  BRIM_CHECK(!shorter, FileError,
             "{}: became shorter while it was open: {} bytes of {}; restore it, and write data "
             "beside it next time",
             path_, info.st_size, bytes_.size());
  BRIM_CHECK(!map_->region->lost, FileError,
             "{}: lost bytes while it was open; look for who changed it, or at its disk", path_);
}

}  // namespace brim::data
