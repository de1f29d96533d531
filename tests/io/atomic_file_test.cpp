// AtomicFile: the name appears with the whole content or not at all.
#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <brim/core/error.h>
#include <fmt/format.h>

#include "io/temporary.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::io {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public ::testing::Test {
 protected:
  std::string content() const { return content_of(path); }
  static std::string content_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder.path()), {}); }
  tests::TemporaryFolder folder;
  const std::string path = folder / "file";
};

TEST_F(AtomicFileTest, AppearsOnCommit) {
  AtomicFile file(path);
  file.write("some text");
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(content(), "some text");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, LinkStaysALink) {
  write_file_atomically(path, "old");
  fs::create_symlink("file", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(content(), "new");
}

TEST_F(AtomicFileTest, LinkIsReplacedWhereItMayNotLead) {
  for (const std::string& target : {path, folder / "absent", std::string("/dev/null")}) {
    write_file_atomically(path, "precious");
    fs::create_symlink(target, folder / "link");
    AtomicFile file(folder / "link", Links::replace);
    file.write("new");
    file.commit();
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "link")));
    EXPECT_EQ(content(), "precious");
    fs::remove(folder / "link");
  }
}

TEST_F(AtomicFileTest, AbandonedLeavesTheOldOne) {
  write_file_atomically(path, "old");
  {
    AtomicFile file(path);
    file.write(std::string(200000, 'x'));
  }
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, NoRoomLeavesTheOldOne) {
  write_file_atomically(path, "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 100000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  for (const Cache cache : {Cache::use, Cache::bypass}) {
    const std::string message = tests::message_of<FileError>([&] {
      AtomicFile file(path, Links::follow, cache);
      file.write(std::string(3000000, 'x'));
      file.commit();
    });
    EXPECT_NE(message.find(path + " cannot be written: File too large"), std::string::npos)
        << message;
    EXPECT_EQ(content(), "old");
    EXPECT_EQ(files(), 1);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

TEST_F(AtomicFileTest, PastTheCacheTheBytesAreTheSame) {
  // Around blocks and buffers, in writes of several sizes; in memory, too, which has no other way.
  std::vector<std::string> paths = {path};
  if (fs::is_directory("/dev/shm"))
    paths.push_back(fmt::format("/dev/shm/brim-atomic-file-test-{}", getpid()));
  for (const std::string& to : paths)
    for (const size_t size : {0, 1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, 3000000}) {
      std::string bytes(size, '\0');
      for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
      StreamHash hash;
      AtomicFile file(to, Links::follow, Cache::bypass);
      file.hash_into(hash);
      for (size_t at = 0, part = 1; at < size; at += part, part = part * 3 + 1)
        file.write(std::string_view(bytes).substr(at, part));
      file.start_writeback();
      file.commit();
      EXPECT_TRUE(content_of(to) == bytes) << to << " " << size;
      EXPECT_EQ(hash.digest().hex, hash_file(to).hex) << to << " " << size;
      EXPECT_EQ(hash.digest().bytes, size) << to;
      fs::remove(to);
    }
}

TEST_F(AtomicFileTest, PermissionsStay) {
  const auto permissions = [&] {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  };
  const mode_t before = umask(027);
  write_file_atomically(path, "new");
  EXPECT_EQ(permissions(), 0640U);
  for (const mode_t mode : {0600, 0666, 0444, 0755}) {
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    write_file_atomically(path, "newer");
    EXPECT_EQ(permissions(), mode);
  }
  umask(before);
}

TEST_F(AtomicFileTest, DevicesAreWrittenToAndNotReplaced) {
  write_file_atomically("/dev/null", "gone");
  struct stat info {};
  ASSERT_EQ(stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
}

TEST_F(AtomicFileTest, APipeNobodyReadsIsNotWaitedForLong) {
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(tests::message_of<FileError>([&] { AtomicFile file(pipe); }).find("that nobody reads"),
            std::string::npos);
  std::thread reader([&] {
    std::ifstream in(pipe);
    std::string text;
    std::getline(in, text);
    EXPECT_EQ(text, "hello");
  });
  write_file_atomically(pipe, "hello\n");
  reader.join();
}

TEST_F(AtomicFileTest, UnusableFolders) {
  EXPECT_THROW(AtomicFile(folder / "no/file"), FileError);
  EXPECT_THROW(AtomicFile{folder.path()}, FileError);
  EXPECT_THROW(AtomicFile{""}, FileError);
}

TEST_F(AtomicFileTest, NamesOfTemporaryFiles) {
  std::string name;
  {
    const AtomicFile open(path);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      name = entry.path().filename();
  }
  EXPECT_EQ(temporary_of(name), "file") << name;
  EXPECT_EQ(temporary_of(".a.brim-1-2.tmp.brim-12-345.tmp"), "a.brim-1-2.tmp");
  for (const char* other :
       {"file", "file.1-2.tmp", ".file.1-2.tmp", "file.brim-1-2.tmp", ".file.brim-1-.tmp",
        ".file.brim--1.tmp", ".file.brim-1-2", ".file.brim-x-2.tmp", ".filebrim-1-2.tmp",
        ".file.brim-1-2.tmpx", ".brim-1-2.tmp", "..brim-1-2.tmp", "x.file.brim-1-2.tmp"})
    EXPECT_FALSE(temporary_of(other)) << other;
}

TEST_F(AtomicFileTest, WhatKilledProcessesLeftIsRemoved) {
  const std::string dead = folder / ".file.brim-4194304-1.tmp";
  const std::string other = folder / ".other.brim-4194304-1.tmp";
  for (const std::string& name : {dead, other}) std::ofstream(name) << "half";
  AtomicFile first(path);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(other)) << "of another file";
  first.write("first");
  AtomicFile second(path);
  second.write("second");
  first.commit();
  EXPECT_EQ(content(), "first") << "it was being written";
  second.commit();
  EXPECT_EQ(content(), "second");
}

TEST_F(AtomicFileTest, NothingElseIsRemoved) {
  std::ofstream(path + ".2024-11.tmp") << "the user's";
  fs::create_directory(folder / "precious");
  fs::create_directory_symlink("precious", folder / ".file.brim-4194304-2.tmp");
  for (const char* name : {"file.2024-12.tmp", ".file.2024-12.tmp", ".file.brim-4194304-1.tmp"})
    fs::create_directory(folder / name);
  write_file_atomically(path, "new");
  EXPECT_EQ(files(), 7);
  { const ScratchFolder scratch(folder.path(), "file"); }
  EXPECT_EQ(files(), 6) << "all but the folder with a name of brim's";
  std::ofstream(folder / ".set.brim-4194304-1.tmp") << "no folder";
  const ScratchFolder set(folder.path(), "set");
  EXPECT_TRUE(fs::exists(folder / ".set.brim-4194304-1.tmp"));
}

TEST_F(AtomicFileTest, NamesMayHaveTheGreatestLength) {
  for (const size_t length : {200U, 201U, 244U, 255U}) {
    const std::string name(length, 'n'), full = folder / name;
    const std::string dead = temporary_name(full);
    std::ofstream(dead) << "half";
    write_file_atomically(full, "whole");
    EXPECT_EQ(fs::file_size(full), 5U);
    EXPECT_FALSE(fs::exists(dead));
    EXPECT_NO_THROW(ScratchFolder(folder.path(), name));
  }
  EXPECT_EQ(files(), 4);
  const std::string name(256, 'n');
  EXPECT_THROW(AtomicFile(folder / name), FileError);
  EXPECT_THROW(ScratchFolder(folder.path(), name), FileError);
}

TEST_F(AtomicFileTest, ScratchFolders) {
  const std::string dead = folder / ".set.brim-4194304-1.tmp";
  fs::create_directories(dead + "/below");
  {
    const ScratchFolder scratch(folder.path(), "set");
    EXPECT_FALSE(fs::exists(dead));
    std::ofstream(scratch / "a") << "a";
    struct stat info {};
    ASSERT_EQ(stat((scratch / ".").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
    const ScratchFolder second(folder.path(), "set");
    EXPECT_TRUE(fs::exists(scratch / "a")) << "it is in use";
    EXPECT_NE(scratch / "a", second / "a");
  }
  EXPECT_EQ(files(), 0);
  EXPECT_THROW(ScratchFolder(folder / "no", "set"), FileError);
}

TEST_F(AtomicFileTest, ParentFolder) {
  EXPECT_EQ(parent_folder("a"), ".");
  EXPECT_EQ(parent_folder("/a"), "/");
  EXPECT_EQ(parent_folder("x/y/a"), "x/y");
}

}  // namespace
}  // namespace brim::io
