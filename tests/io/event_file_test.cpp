// TensorBoard's event files: checksums, framing, names, and folders that cannot be written to.
#include "io/event_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <brim/core/error.h>

#include "io/event_reader.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::io {
namespace {

TEST(EventFile, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

TEST(EventFile, BeginsWithTheVersionAndHoldsWhatWasAdded) {
  const tests::TemporaryFolder folder;
  EventFile file(folder / "a/b");
  file.add_restart(7);
  file.add_summary(int64_t{1} << 40, ProtobufWriter().text(1, "summary"));
  file.flush();
  EXPECT_EQ(file.path(), tests::only_file(folder / "a/b"));
  EXPECT_TRUE(
      std::filesystem::path(file.path()).filename().string().starts_with("events.out.tfevents."));
  const auto events = tests::read_events(file.path());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].text(3), "brain.Event:2");
  EXPECT_GT(events[0].f64(1), 1.5e9);
  EXPECT_EQ(events[1].number(2), 7);
  EXPECT_EQ(events[1].message(7).number(1), 1) << "SessionLog::START";
  EXPECT_EQ(events[2].number(2), int64_t{1} << 40);
  EXPECT_EQ(events[2].message(5).text(1), "summary");
}

TEST(EventFile, AGraphIsFoundInAFile) {
  const tests::TemporaryFolder folder;
  EventFile file(folder / "a");
  file.add_summary(1 << 20, ProtobufWriter().text(4, "no graph, for all its number"));
  file.flush();
  EXPECT_FALSE(has_graph(file.path()));
  file.add_graph(ProtobufWriter().text(1, std::string(5000, 'x')));
  file.add_summary(2, ProtobufWriter().text(1, "more"));
  file.flush();
  EXPECT_TRUE(has_graph(file.path()));
}

TEST(EventFile, AGraphThatIsDamagedOrBehindDamageIsNone) {
  const tests::TemporaryFolder folder;
  EventFile file(folder / "a");
  file.add_graph(ProtobufWriter().text(1, std::string(100, 'x')));
  file.flush();
  std::ifstream in(file.path(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto has = [&](const std::string& bytes) {
    std::ofstream(folder / "other", std::ios::binary) << bytes;
    return has_graph(folder / "other");
  };
  EXPECT_TRUE(has(whole));
  EXPECT_FALSE(has(""));
  EXPECT_FALSE(has(whole.substr(0, whole.size() - 1)));
  for (size_t at : {size_t{0}, size_t{9}, whole.size() - 20, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(has(damaged)) << at;
  }
  EXPECT_FALSE(has_graph(folder / "none"));
  EXPECT_FALSE(has_graph(folder / "a"));
}

TEST(EventFile, SeveralOfAProcessHaveTheirOwnNames) {
  const tests::TemporaryFolder folder;
  const EventFile first(folder / "a"), second(folder / "a");
  EXPECT_NE(first.path(), second.path());
}

TEST(EventFile, AFolderThatCannotBeMadeIsNamed) {
  const tests::TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const std::string error = tests::message_of<FileError>([&] { EventFile(folder / "file"); });
  EXPECT_NE(error.find(folder / "file"), std::string::npos) << error;
  EXPECT_NE(error.find("cannot be made"), std::string::npos) << error;
}

}  // namespace
}  // namespace brim::io
