// Pictures with a table of targets: values, splits, and errors that name the line.
#include <brim/core/error.h>
#include <brim/data/loader.h>
#include <brim/data/pictures.h>
#include <gtest/gtest.h>

#include "data/picture_sets.h"

namespace brim::data {
namespace {

using namespace tests;

using Floats = std::vector<float>;
using Names = std::vector<std::string>;

class Labelled : public ::testing::Test {
 protected:
  Labelled() {
    for (const char* name : {"a.png", "b.png", "deep/c.png"})
      write_bytes(folder_ / name, encode_png(gradient(4, 3, 3, 1), 4, 3, 3));
  }
  PictureDataPtr open(const std::string& table, Targets targets = Targets::multi_label,
                      Split split = Split::train) const {
    write_text(folder_ / "labels.csv", table);
    return open_labelled(folder_ / "", split, targets);
  }
  std::string error(const std::string& table, Targets targets = Targets::multi_label) const {
    return message_of<FileError>([&] { (void)open(table, targets); });
  }

  TemporaryFolder folder_;
};

Tensor y_of(const DatasetPtr& data) {
  const Loader loader(data, {.batch = data->size(), .workers = 0, .shuffle = false});
  return loader.epoch(0).next()->y;
}

TEST_F(Labelled, SeveralLabels) {
  const auto data = open("cat,file,dog\n0,a.png,1\n\n1.0,\"deep/c.png\",1\r\n");
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->names(), (Names{"cat", "dog"}));
  EXPECT_EQ(data->shape(), (ImageShape{3, 3, 4}));
  EXPECT_TRUE(has(data->describe(1), "deep/c.png"));
  const Tensor y = y_of(data);
  EXPECT_EQ(y.shape(), (Shape{2, 2}));
  EXPECT_EQ(y.dtype(), f32);
  EXPECT_EQ(y.to_vector<float>(), (Floats{0, 1, 1, 1}));
  EXPECT_EQ(y_of(open("file,cat\na.png,1\n")).shape(), (Shape{1, 1}));
}

TEST_F(Labelled, Regression) {
  const auto one = open("file,age\na.png,4.5\nb.png,-1e3\n", Targets::regression);
  EXPECT_EQ(y_of(one).shape(), (Shape{2}));
  EXPECT_EQ(y_of(one).to_vector<float>(), (Floats{4.5, -1000}));
  const auto two = open("file,age,size\na.png,4.5,1\n", Targets::regression);
  EXPECT_EQ(y_of(two).shape(), (Shape{1, 2}));
}

TEST_F(Labelled, SplitsOfAColumn) {
  const std::string table = "file,split,t\na.png,test,0\nb.png,train,1\ndeep/c.png,val,0\n";
  const auto files = [&](const std::string& of, Split split) {
    Names names;
    const auto data = open(of, Targets::multi_label, split);
    for (int64_t i = 0; i < data->size(); ++i)
      names.push_back(data->describe(i).substr(data->describe(i).size() - 5));
    return names;
  };
  EXPECT_EQ(files(table, Split::train), (Names{"b.png"}));
  EXPECT_EQ(files(table, Split::test), (Names{"a.png"}));
  EXPECT_EQ(files(table, Split::all), (Names{"b.png", "a.png"}));
  EXPECT_EQ(files("file,split,t\na.png,val,0\nb.png,train,1\n", Split::test), (Names{"a.png"}));
  const auto missing = [&](const std::string& of, Split split) {
    return message_of<NoSuchSplit>([&] { (void)open(of, Targets::multi_label, split); });
  };
  EXPECT_TRUE(has(missing("file,t\na.png,0\n", Split::test),
                  "labels.csv: no lines of split test; there is no column 'split'"));
  EXPECT_TRUE(has(missing("file,split,t\na.png,val,0\n", Split::train),
                  "no lines of split train; column 'split' names each line's"));
}

TEST_F(Labelled, WhatIsWrongNamesTheLine) {
  const std::string head = "file,cat,dog\n";
  EXPECT_TRUE(has(error(head + "a.png,0,1\nb.png,0,2\n"),
                  "labels.csv: line 3: column 'dog': 2 is neither 0 nor 1"));
  for (const Targets targets : {Targets::multi_label, Targets::regression}) {
    const auto wrong = [&](const std::string& table) { return error(table, targets); };
    EXPECT_TRUE(has(wrong(head + "a.png,0,nan\n"), "line 2: column 'dog': 'nan' is no finite"));
    EXPECT_TRUE(has(wrong(head + "a.png,1e300,0\n"), "line 2: column 'cat': '1e300' is no finite"));
    EXPECT_TRUE(has(wrong(head + "a.png,,0\n"), "line 2: column 'cat' is empty"));
    EXPECT_TRUE(has(wrong(head + "a.png,0\n"), "line 2: 2 fields instead of 3"));
    EXPECT_TRUE(has(wrong(head + ",0,1\n"), "line 2: column 'file' is empty"));
    EXPECT_TRUE(has(wrong(head + "x.png,0,1\n"), "line 2: no file 'x.png' in "));
    EXPECT_TRUE(has(wrong(head + "deep,0,1\n"), "line 2: no file 'deep' in "));
    EXPECT_TRUE(has(wrong(head + "/etc/passwd,0,1\n"), "line 2: '/etc/passwd' leaves the folder"));
    EXPECT_TRUE(has(wrong(head + "deep/../../a.png,0,1\n"), "leaves the folder"));
    EXPECT_TRUE(has(wrong("file,split,cat\na.png,dev,1\n"),
                    "line 2: split 'dev'; expected train, test or val"));
    EXPECT_TRUE(has(wrong(head + "\"a.png,0,1\n"), "line 2: a quote that never ends"));
    EXPECT_TRUE(has(wrong("name,cat\na.png,1\n"), "no column 'file'; there are name, cat"));
    EXPECT_TRUE(has(wrong("file,cat,cat\na.png,1,1\n"), "two columns are called 'cat'"));
    EXPECT_TRUE(has(wrong("file,cat,\na.png,1,1\n"), "column 3 has no name"));
    EXPECT_TRUE(has(wrong("file,split\na.png,train\n"), "no targets"));
    EXPECT_TRUE(has(wrong(head), "no lines behind the names of the columns"));
    EXPECT_TRUE(has(wrong(""), "no lines"));
  }
  EXPECT_TRUE(has(message_of<FileError>([&] {
                    (void)open_labelled(folder_ / "deep", Split::train, Targets::regression);
                  }),
                  "deep/labels.csv"));
}

TEST_F(Labelled, DamagedPicturesAreSamplesThatCannotBeRead) {
  write_text(folder_ / "b.png", "no picture");
  const Loader loader(open("file,t\na.png,1\nb.png,0\n"), {.batch = 2, .on_error = OnError::skip});
  for (const Batch& b : loader.epoch(0)) EXPECT_EQ(b.y.to_vector<float>(), (Floats{1}));
  EXPECT_EQ(loader.skipped(), 1);
}

}  // namespace
}  // namespace brim::data
