// Downloads the files of known data sets (see brim/data/get.h).
#include "data/get/get.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fmt/ranges.h>

#include "core/check.h"
#include "core/nearest.h"
#include "core/open_to_write.h"
#include "core/write_cure.h"
#include "data/file.h"
#include "data/get/download.h"
#include "data/get/md5.h"
#include "data/source/archive_reader.h"
#include "io/atomic_file.h"

namespace brim::data {
namespace {

namespace fs = std::filesystem;

const std::vector<RemoteSet>& sets() {
  static const std::vector<RemoteSet> all = {
      {"cifar10",
       {"https://www.cs.toronto.edu/~kriz/"},
       {{"cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"}},
       {"batches.meta.txt", "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
        "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}},
      {"mnist",
       {"https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"},
       {{"train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
        {"train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"},
        {"t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"},
        {"t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"}},
       {}},
      {"fashion-mnist",
       {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
       {{"train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
        {"train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"},
        {"t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"},
        {"t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"}},
       {}}};
  return all;
}

int64_t size_of(const std::string& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

// Keeps other commands from fetching into the same folder for as long as it lives. A killed one
// leaves the file, but not the lock. Where files cannot be locked it does nothing.
class FolderLock {
 public:
  FolderLock(const std::string& folder, const std::string& name, const GetOptions& options)
      : path_((fs::path(folder) / ".brim-get.lock").string()) {
    bool told = false;
    while (!try_lock(folder)) {
      if (!told && options.warn)
        options.warn(fmt::format("{}: another command fetches into it; waiting for it", folder));
      told = true;
      if (options.progress && !options.progress({name, 0, 0}))
        raise<Error>("{}: stopped; getting it again goes on there", folder);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (file_ < 0) return;
    std::remove(path_.c_str());  // before another one can lock it
    ::close(file_);
  }

 private:
  // False: another one has it.
  bool try_lock(const std::string& folder) {
    std::error_code error;
    fs::create_directories(folder, error);  // one that failed may just have removed it
    const int file = open_to_write(path_, O_RDWR);
    if (file < 0) return errno != ENOENT || error;
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      const bool other = errno == EWOULDBLOCK || errno == EINTR;
      ::close(file);
      return !other;
    }
    // The one before may have removed this file after it was opened here.
    struct stat mine {
    }, there{};
    if (::fstat(file, &mine) != 0 || ::stat(path_.c_str(), &there) != 0 ||
        mine.st_ino != there.st_ino) {
      ::close(file);
      return false;
    }
    file_ = file;
    return true;
  }

  std::string path_;
  int file_ = -1;
};

// Fetches from one address; goes on for as long as broken transfers bring something.
void fetch(const std::string& url, const std::string& part, const RemoteFile& file,
           const GetOptions& options) {
  constexpr int kMaxAttempts = 20;
  for (int attempt = 1;; ++attempt) {
    const int64_t before = size_of(part);
    try {
      return download(url, part, [&](int64_t done, int64_t total) {
        return !options.progress || options.progress({file.name, done, total});
      });
    } catch (const TransferError&) {
      if (attempt == kMaxAttempts || size_of(part) <= before) throw;
    }
  }
}

// Fetches from one address until the checksum is right. What an earlier run left behind may be
// wrong: then once more from the start. Returns what went wrong, or nothing.
std::string fetch_checked(const std::string& url, const std::string& part, const RemoteFile& file,
                          const GetOptions& options) {
  while (true) {
    const bool goes_on = size_of(part) > 0;
    try {
      fetch(url, part, file, options);
    } catch (const TransferError& error) {
      return error.what();
    }
    const std::string md5 = md5_of_file(part);
    if (md5 == file.md5) return {};
    std::remove(part.c_str());
    const std::string reason =
        fmt::format("{}: what came has MD5 {} instead of {}; it was deleted", url, md5, file.md5);
    if (!goes_on) return reason;
    if (options.warn) options.warn(reason + ", and is fetched from the start");
  }
}

// Puts the file into the folder, from the first address that has it.
void get_file(const RemoteSet& set, const RemoteFile& file, const std::string& path,
              const GetOptions& options) {
  struct Part {
    const std::string path;
    ~Part() {
      if (size_of(path) == 0) std::remove(path.c_str());
    }
  } const part{path + ".part"};
  std::vector<std::string> addresses = set.addresses;
  if (!options.mirror.empty()) addresses.insert(addresses.begin(), options.mirror);
  std::string reasons;
  for (std::string url : addresses) {
    if (!url.ends_with('/')) url += '/';
    url += file.name;
    const std::string reason = fetch_checked(url, part.path, file, options);
    if (reason.empty()) {
      BRIM_CHECK(::rename(part.path.c_str(), path.c_str()) == 0, FileError,
                 "{}: cannot rename {} to it: {}", path, part.path, std::strerror(errno));
      return;
    }
    if (options.warn) options.warn(reason);
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  raise<FileError>("[data] {}: cannot be fetched: {}; {}", file.name, reasons,
                   size_of(part.path) > 0 ? "try again later, it goes on where it ended"
                                          : "try again later, or another GetOptions::mirror");
}

// Writes the wanted files of an archive into the folder, without the folders inside the archive.
void unpack(const std::string& archive, const std::vector<std::string>& wanted,
            const fs::path& folder) {
  ArchiveReader reader(archive);
  reader.read_everything();
  std::vector<std::string> missing = wanted;
  std::string name;
  std::span<const uint8_t> bytes;
  while (reader.next(name, bytes)) {
    const auto found =
        std::find(missing.begin(), missing.end(), fs::path(name).filename().string());
    if (found == missing.end()) continue;
    io::AtomicFile out((folder / *found).string(), io::Links::replace);
    out.write(bytes.data(), bytes.size());
    out.commit();
    missing.erase(found);
  }
  BRIM_CHECK(missing.empty(), FileError, "{}: holds no {}; get it again", archive, missing[0]);
}

}  // namespace

std::vector<std::string> get_files(const RemoteSet& set, const std::string& folder,
                                   const GetOptions& options) {
  const EmptyFolders made(folder);
  std::error_code error;
  const auto place = [&](const std::string& name) { return (fs::path(folder) / name).string(); };
  std::vector<std::string> paths;
  for (const std::string& name : set.unpacked) paths.push_back(place(name));
  const auto exists = [&](const std::string& path) { return fs::exists(path, error); };
  const auto complete = [&] {
    return !paths.empty() && std::all_of(paths.begin(), paths.end(), exists);
  };
  if (complete()) return paths;
  make_folders("data", folder);
  const FolderLock lock(folder, set.files[0].name, options);
  if (complete()) return paths;  // another command brought it
  for (const RemoteFile& file : set.files) {
    const std::string path = place(file.name);
    if (!exists(path) || md5_of_file(path) != file.md5) get_file(set, file, path, options);
    if (set.unpacked.empty()) {
      paths.push_back(path);
    } else {
      unpack(path, set.unpacked, folder);
      fs::remove(path, error);
    }
  }
  io::sync_folder(folder);
  return paths;
}

std::vector<std::string> known_data_sets() {
  std::vector<std::string> names;
  for (const RemoteSet& set : sets()) names.push_back(set.name);
  return names;
}

std::vector<std::string> get_data_set(const std::string& name, const std::string& folder,
                                      const GetOptions& options) {
  const auto found = std::find_if(sets().begin(), sets().end(),
                                  [&](const RemoteSet& s) { return s.name == name; });
  BRIM_CHECK(found != sets().end(), ValueError, "[data] no known data set '{}'{}; known are {}",
             name, suggestion(name, known_data_sets()), fmt::join(known_data_sets(), ", "));
  return get_files(*found, folder, options);
}

}  // namespace brim::data
