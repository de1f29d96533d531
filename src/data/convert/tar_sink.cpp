// Tars and WebDataset shards, through libarchive.
#include <filesystem>

#include "core/check.h"
#include "core/open_to_write.h"
#include "core/write_cure.h"
#include "data/convert/sink.h"

#if BRIM_HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#endif

namespace brim::data {

#if BRIM_HAVE_ARCHIVE

namespace {

class TarFile {
 public:
  explicit TarFile(const std::string& path)
      : path_(path),
        file_(open_stream(path, O_WRONLY | O_EXCL)),
        handle_(archive_write_new(), &archive_write_free) {
    if (!file_) fail(write_failure(errno));
    check(archive_write_set_format_pax_restricted(handle_.get()));
    check(archive_write_open_fd(handle_.get(), ::fileno(file_.get())));
  }

  void add(const std::string& name, const void* data, size_t bytes) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                         &archive_entry_free);
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes));
    check(archive_write_header(handle_.get(), entry.get()));
    if (archive_write_data(handle_.get(), data, bytes) != static_cast<la_ssize_t>(bytes))
      check(ARCHIVE_FATAL);
  }
  void close() {
    check(archive_write_close(handle_.get()));
    if (::fsync(::fileno(file_.get())) != 0) fail(write_failure(errno));
  }

 private:
  void check(int status) {
    if (status >= ARCHIVE_WARN) return;
    const int error = archive_errno(handle_.get());  // the system's, or libarchive's own
    const char* const reason = archive_error_string(handle_.get());
    if (can_be_cured(error)) fail(write_failure(error));
    fail(reason != nullptr ? reason : "unknown error");
  }
  static bool can_be_cured(int error) {
    constexpr int kOfVolumes[] = {ENOSPC, EDQUOT, EROFS, EIO, EFBIG};
    return std::ranges::count(kOfVolumes, error) > 0;
  }
  [[noreturn]] void fail(const std::string& reason) const {
    raise<FileError>("{}: cannot write: {}", path_, reason);
  }

  std::string path_;
  OwnedStream file_;
  std::unique_ptr<archive, int (*)(archive*)> handle_;
};

class TarSink final : public Sink {
 public:
  TarSink(const std::string& path, const SinkPlan& plan) : plan_(plan), tar_(path) {}
  bool takes_files() const override { return true; }
  void add(const SinkSample& sample, bool test) override {
    tar_.add(name_in_folder(plan_, sample, test, number_++), sample.file.data(),
             sample.file.size());
  }
  void finish() override { tar_.close(); }

 private:
  const SinkPlan& plan_;
  TarFile tar_;
  int64_t number_ = 0;
};

class ShardsSink final : public Sink {
 public:
  explicit ShardsSink(const std::string& path) : folder_(path) {
    std::filesystem::create_directories(folder_);
  }
  bool takes_files() const override { return true; }
  void add(const SinkSample& sample, bool test) override {
    constexpr int64_t kPerShard = 1000;
    if (test != test_) finish(), number_ = 0, test_ = test;
    if (number_ % kPerShard == 0) {
      finish();
      tar_ = std::make_unique<TarFile>(
          (folder_ / fmt::format("{}-{:06}.tar", test ? "test" : "train", number_ / kPerShard))
              .string());
    }
    const std::string name = fmt::format("{:09}", number_++), label = std::to_string(sample.label);
    tar_->add(name + "." + sample.extension, sample.file.data(), sample.file.size());
    tar_->add(name + ".cls", label.data(), label.size());
  }
  void finish() override {
    if (tar_) tar_->close();
    tar_.reset();
  }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<TarFile> tar_;
  int64_t number_ = 0;
  bool test_ = false;
};

}  // namespace

std::unique_ptr<Sink> make_tar_sink(const std::string& path, const SinkPlan& plan) {
  return std::make_unique<TarSink>(path, plan);
}
std::unique_ptr<Sink> make_shards_sink(const std::string& path) {
  return std::make_unique<ShardsSink>(path);
}

#else

std::unique_ptr<Sink> make_tar_sink(const std::string&, const SinkPlan&) {
  raise<FileError>(
      "[data] this build of brim cannot write tars; install libarchive-dev and rebuild");
}
std::unique_ptr<Sink> make_shards_sink(const std::string& path) { return make_tar_sink(path, {}); }

#endif

}  // namespace brim::data
