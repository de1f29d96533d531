// Downloads from a server in this process: resuming, faults, checksums, unpacking.
#include "data/get/get.h"

#include <brim/core/error.h>
#include <brim/data/source.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>

#include "data/get/download.h"
#include "data/get/md5.h"
#include "data/http_server.h"
#include "data/scratch.h"
#include "data/tar_writer.h"

namespace brim::data {
namespace {

using namespace tests;

TEST(Md5, EqualsTheRfcsExamples) {
  const auto hex = [](const std::string& text) {
    return md5_of(std::vector<uint8_t>(text.begin(), text.end()));
  };
  EXPECT_EQ(hex(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(hex("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(hex("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

class GetTest : public ::testing::Test {
 protected:
  GetTest() : content(300'000) {
    for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i * i >> 3);
    server.emplace(std::map<std::string, std::vector<uint8_t>>{{"a.bin", content}});
    set = {"set", {server->url()}, {{"a.bin", md5_of(content)}}, {}};
    options.warn = [this](const std::string& reason) { warnings.push_back(reason); };
    ::setenv("no_proxy", "127.0.0.1", 1);
  }
  void SetUp() override {
    if (!built_with_curl()) GTEST_SKIP() << "built without libcurl";
    if (::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL) == nullptr) GTEST_SKIP() << ::dlerror();
  }
  std::vector<std::string> requests() { return server->requests(); }

  TemporaryFolder folder;
  std::vector<uint8_t> content;
  std::optional<HttpServer> server;
  RemoteSet set;
  GetOptions options;
  std::vector<std::string> warnings;
  const std::string out = folder / "out", path = out + "/a.bin", part = path + ".part";
};

TEST_F(GetTest, FetchesOnceAndTellsHowFar) {
  int64_t last = 0, total = 0;
  options.progress = [&](const GetProgress& p) {
    EXPECT_EQ(p.file, "a.bin");
    EXPECT_GE(p.done, last);
    last = p.done, total = std::max(total, p.total);
    return true;
  };
  EXPECT_EQ(get_files(set, out, options), (std::vector<std::string>{path}));
  EXPECT_EQ(read_bytes(path), content);
  EXPECT_EQ(last, 300'000);
  EXPECT_EQ(total, 300'000);
  EXPECT_FALSE(fs::exists(part));
  options.progress = {};
  get_files(set, out, options);
  EXPECT_EQ(requests().size(), 1u);  // it was there already
  write_bytes(path, {1, 2, 3});      // but not if it was damaged since
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
}

TEST_F(GetTest, FollowsNoLink) {
  write_bytes(folder / "victim", {1, 2, 3});
  fs::create_directories(out);
  fs::create_symlink(folder / "victim", part);
  fs::create_symlink(folder / "absent", out + "/.brim-get.lock");
  const auto text = message_of<FileError>([&] { get_files(set, out, options); });
  EXPECT_TRUE(has(text, part));
  EXPECT_EQ(read_bytes(folder / "victim"), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_FALSE(fs::exists(folder / "absent"));
}

TEST_F(GetTest, GoesOnAfterEveryCut) {
  server->cut_after = 100'001;
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
  EXPECT_EQ(requests(),
            (std::vector<std::string>{"a.bin", "a.bin from 100001", "a.bin from 200002"}));
}

TEST_F(GetTest, GoesOnWhereAnEarlierRunEnded) {
  write_bytes(part, {content.begin(), content.begin() + 1234});
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
  EXPECT_EQ(requests(), (std::vector<std::string>{"a.bin from 1234"}));
  fs::rename(path, part);  // all of it was there, but for the name
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
}

TEST_F(GetTest, StartsAnewWhereTheServerHasNoRanges) {
  server->ranges = false;
  write_bytes(part, std::vector<uint8_t>(5000, 7));
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
}

TEST_F(GetTest, WrongChecksumIsDeletedAndTold) {
  set.files[0].md5 = std::string(32, '0');
  const auto text = message_of<FileError>([&] { get_files(set, out, options); });
  EXPECT_NE(text.find("what came has MD5 " + md5_of(content) + " instead of 000"),
            std::string::npos)
      << text;
  EXPECT_FALSE(fs::exists(out));  // and nothing is left behind
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(GetTest, DamagedPartIsFetchedAnew) {
  write_bytes(part, std::vector<uint8_t>(5000, 7));
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
  EXPECT_EQ(requests(), (std::vector<std::string>{"a.bin from 5000", "a.bin"}));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("it was deleted"), std::string::npos);
}

TEST_F(GetTest, TooLongAPartIsFetchedAnew) {
  write_bytes(part, std::vector<uint8_t>(400'000, 7));
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
  EXPECT_EQ(requests(), (std::vector<std::string>{"a.bin from 400000", "a.bin"}));
}

TEST_F(GetTest, ADamagedPartIsFetchedAnewOnlyOnce) {
  set.files[0].md5 = std::string(32, '0');
  write_bytes(part, std::vector<uint8_t>(5000, 7));
  EXPECT_THROW(get_files(set, out, options), FileError);
  EXPECT_EQ(requests(), (std::vector<std::string>{"a.bin from 5000", "a.bin"}));
}

TEST_F(GetTest, TwoAtOnceFetchItOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_NO_THROW(get_files(set, out, {})); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_bytes(path), content);
  EXPECT_EQ(requests(), (std::vector<std::string>{"a.bin"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(out), {}), 1);  // and no lock is left
}

TEST_F(GetTest, WaitsForAnotherCommand) {
  const std::string lock = out + "/.brim-get.lock";
  write_bytes(lock, {});
  const int other = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  options.progress = [](const GetProgress& p) { return p.done > 0; };
  EXPECT_THROW(get_files(set, out, options), Error);
  EXPECT_EQ(requests().size(), 0u);
  EXPECT_EQ(warnings,
            (std::vector<std::string>{out + ": another command fetches into it; waiting for it"}));
  EXPECT_TRUE(fs::exists(lock));
  ::close(other);  // a killed command leaves the file alone
  get_files(set, out, {});
  EXPECT_EQ(read_bytes(path), content);
  EXPECT_FALSE(fs::exists(lock));
}

TEST_F(GetTest, TriesTheMirrorAndThenTheOthers) {
  HttpServer empty({});
  options.mirror = empty.url() + "sub";  // with or without the slash
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
  EXPECT_EQ(empty.requests(), (std::vector<std::string>{"sub/a.bin"}));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], empty.url() + "sub/a.bin: the server answers 404");
}

TEST_F(GetTest, NoAddressHasIt) {
  set.addresses = {server->url() + "nowhere", "http://127.0.0.1:1/", "file:///etc"};
  const auto text = message_of<FileError>([&] { get_files(set, out, options); });
  EXPECT_EQ(text.rfind("[data] a.bin: cannot be fetched: ", 0), 0u) << text;
  EXPECT_NE(text.find("the server answers 404"), std::string::npos) << text;
  EXPECT_EQ(warnings.size(), 3u);
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(GetTest, StoppingKeepsWhatCame) {
  options.progress = [](const GetProgress& p) { return p.done < 1000; };
  EXPECT_THROW(get_files(set, out, options), Error);
  ASSERT_TRUE(fs::exists(part));
  options.progress = {};
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
}

TEST_F(GetTest, FullDiskKeepsWhatCame) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto text = message_of<FileError>([&] { get_files(set, out, options); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(text.rfind(part + ": cannot write: ", 0), 0u) << text;
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
}

TEST_F(GetTest, StoppingBeforeAnythingCameLeavesNothing) {
  options.progress = [](const GetProgress&) { return false; };
  EXPECT_THROW(get_files(set, out, options), Error);
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(GetTest, WhatProgressThrowsComesOut) {
  options.progress = [](const GetProgress& p) {
    return p.done < 1000 || (throw std::runtime_error("enough"), true);
  };
  EXPECT_EQ(message_of<std::runtime_error>([&] { get_files(set, out, options); }), "enough");
  EXPECT_TRUE(fs::exists(part));
}

TEST_F(GetTest, ProgressNeverPassesTheTotal) {
  write_bytes(part, {content.begin(), content.begin() + 290'000});
  options.progress = [](const GetProgress& p) {
    EXPECT_TRUE(p.total == 0 || p.done <= p.total) << p.done << " of " << p.total;
    return true;
  };
  get_files(set, out, options);
  EXPECT_EQ(read_bytes(path), content);
}

class GetArchiveTest : public GetTest {
 protected:
  // Serves the archive that `fill` writes.
  template <class Fill>
  void serve(const Fill& fill) {
    {
      TarWriter tar(folder / "set.tar.gz", "gzip");
      fill(tar);
    }
    const auto bytes = read_bytes(folder / "set.tar.gz");
    server.emplace(std::map<std::string, std::vector<uint8_t>>{{"set.tar.gz", bytes}});
    set = {"set",
           {server->url()},
           {{"set.tar.gz", md5_of(bytes)}},
           {"data_batch_1.bin", "test_batch.bin"}};
  }
};

TEST_F(GetArchiveTest, IsUnpackedAndRemoved) {
  serve([](TarWriter& tar) {
    tar.folder("cifar-10-batches-bin");
    tar.file("cifar-10-batches-bin/readme.html", {1});
    tar.file("cifar-10-batches-bin/test_batch.bin", cifar_records({3}));
    tar.file("cifar-10-batches-bin/data_batch_1.bin", cifar_records({1, 2}));
  });
  EXPECT_EQ(get_files(set, out, options).size(), 2u);
  EXPECT_EQ(Source::open(out, Split::train)->size(), 2);
  EXPECT_EQ(Source::open(out, Split::test)->label(0), 3);
  EXPECT_FALSE(fs::exists(out + "/set.tar.gz"));
  EXPECT_FALSE(fs::exists(out + "/readme.html"));
  get_files(set, out, options);
  EXPECT_EQ(server->requests().size(), 1u);
}

TEST_F(GetArchiveTest, HostileEntriesAreRefused) {
  serve([](TarWriter& tar) { tar.file("../data_batch_1.bin", {1}); });
  auto text = message_of<FileError>([&] { get_files(set, out, options); });
  EXPECT_NE(text.find("points outside the archive"), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(folder / "data_batch_1.bin"));
  serve([](TarWriter& tar) { tar.symlink("data_batch_1.bin", "/etc/passwd"); });
  text = message_of<FileError>([&] { get_files(set, folder / "b", options); });
  EXPECT_NE(text.find("is a link"), std::string::npos) << text;
  serve([](TarWriter& tar) { tar.file("x/data_batch_1.bin", {1}); });
  text = message_of<FileError>([&] { get_files(set, folder / "c", options); });
  EXPECT_NE(text.find("holds no test_batch.bin"), std::string::npos) << text;
}

TEST(Get, UnknownNamesAreHelpedWith) {
  const auto text = message_of<ValueError>([] { get_data_set("minst", "x"); });
  EXPECT_EQ(text,
            "[data] no known data set 'minst'; did you mean 'mnist'?; known are cifar10, mnist, "
            "fashion-mnist");
}

}  // namespace
}  // namespace brim::data
