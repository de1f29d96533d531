// Lines of files and pipes as iterable data sets.
#include <brim/data/iterable.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/iterables.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::data {
namespace {

using namespace brim::tests;

/// A named pipe with this text in it, whose writing end stays open.
class Pipe {
 public:
  explicit Pipe(const std::string& path) : path_(path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~Pipe() { close(); }
  void write(const std::string& text) const {
    EXPECT_EQ(::write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  const std::string path_;
  int fd_;
};

std::string text_of(const Batch& batch) {
  std::string text;
  for (const uint8_t c : batch["text"].to_vector<uint8_t>()) text += static_cast<char>(c);
  return text;
}

TEST(IterableLines, OfAFile) {
  const TemporaryFolder folder;
  const auto lines = [&](const std::string& text) {
    std::ofstream(folder / "text", std::ios::binary) << text;
    LoaderOptions options = reading(1);
    options.batch = 1;
    const Loader loader(open_lines(folder / "text"), options);
    std::vector<std::string> all;
    for (const Batch& batch : loader.epoch(0)) all.push_back(text_of(batch));
    return all;
  };
  const auto separately = [&](const std::string& text) {
    std::ofstream(folder / "text", std::ios::binary) << text;
    std::vector<std::string> all;
    const IterablePtr data = open_lines(folder / "text");
    data->begin(0);
    for (Sample sample; data->next(sample); sample = Sample())
      all.emplace_back(reinterpret_cast<const char*>(sample["text"].data),
                       static_cast<size_t>(sample["text"].bytes()));
    return all;
  };
  using Strings = std::vector<std::string>;
  EXPECT_EQ(lines("abc\ndef\n"), (Strings{"abc", "def"}));
  EXPECT_EQ(separately("a\n\nlong\r\nend"), (Strings{"a", "", "long\r", "end"}));
  EXPECT_EQ(separately(""), Strings());
  EXPECT_EQ(separately("\n"), Strings{""});
  const std::string longer(600'000, 'x');  // than what is read at once
  EXPECT_EQ(separately("a\n" + longer + "\n" + longer), (Strings{"a", longer, longer}));
  EXPECT_THROW(open_lines(folder / "nothing"), FileError);
  EXPECT_THROW(open_lines(folder.path()), FileError);
}

TEST(IterableLines, OfAShorterFileDoNotGoOn) {
  const TemporaryFolder folder;
  const std::string path = write_lines(folder / "text", 20);
  LoaderOptions options = reading(1);
  options.collate = pad();
  Epoch epoch = Loader(open_lines(path), options).epoch(0);
  ASSERT_NE(epoch.next(), nullptr);
  const std::string state = epoch.state();
  write_lines(path, 1);
  EXPECT_NE(message_of<ValueError>([&] {
              (void)Loader(open_lines(path), options).epoch(0, state);
            }).find("where the state goes on"),
            std::string::npos);
}

TEST(IterableLines, OfAPipeComeOnceAndHaveNoState) {
  const TemporaryFolder folder;
  Pipe pipe(folder / "pipe");
  for (const int workers : {0, 2}) {
    pipe.write("ab\ncd\nef\ngh\nij\nkl\n");
    LoaderOptions options = reading(workers);
    options.batch = 2;
    const Loader loader(take(open_lines(folder / "pipe"), 3), options);
    const auto pass = [&](int64_t e) {
      std::vector<std::string> all;
      for (const Batch& batch : loader.epoch(e)) all.push_back(text_of(batch));
      return all;
    };
    EXPECT_EQ(pass(0), (std::vector<std::string>{"abcd", "ef"}));
    EXPECT_EQ(pass(1), (std::vector<std::string>{"ghij", "kl"}));
    pipe.write("ab\ncd\nef\n");
    Epoch epoch = loader.epoch(2);
    ASSERT_NE(epoch.next(), nullptr);
    for (const auto& state : {std::function([&] { return epoch.state(); }),
                              std::function([&] { return loader.state(3, 0); })})
      EXPECT_NE(message_of<ValueError>([&] { (void)state(); }).find("is a pipe"),
                std::string::npos);
    ASSERT_NE(epoch.next(), nullptr);
  }
  Loader rest(open_lines(folder / "pipe"), reading(1));
  Epoch epoch = rest.epoch(0);
  pipe.write("end\nend");
  pipe.close();
  ASSERT_NE(epoch.next(), nullptr);
  EXPECT_EQ(epoch.next(), nullptr);
}

TEST(IterableLines, APipeThatBlocksIsLeftAtOnce) {
  const TemporaryFolder folder;
  const Pipe pipe(folder / "pipe");
  const auto lines = [&] { return open_lines(folder / "pipe"); };
  for (const IterablePtr& data :
       {lines(), shuffled(lines(), 2), chain({lines, lines}), noisy(sharded(lines(), 0, 1))}) {
    pipe.write("ab\ncd\nef\ngh\nij\n");
    const Loader loader(data, reading(3));
    {
      Epoch epoch = loader.epoch(0);
      ASSERT_NE(epoch.next(), nullptr);
    }  // a worker waits for the pipe
    const Epoch again = loader.epoch(1);
    const Epoch last = loader.epoch(2);
  }
}

}  // namespace
}  // namespace brim::data
