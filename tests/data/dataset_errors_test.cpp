// Data sets that throw, do not fit, cannot be served or block: what the loop is told.
#include <brim/core/error.h>
#include <brim/data/dataset.h>
#include <brim/data/device_loader.h>
#include <brim/ops/create.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "data/datasets.h"
#include "data/loader/pipeline.h"
#include "message_of.h"

namespace brim::data {
namespace {

using namespace brim::tests;

TEST(DatasetErrors, WhatIsThrownNamesTheSample) {
  const auto data = std::make_shared<Sentences>(20, false);
  std::function<void(Sample&)> bad;
  data->before = [&](int64_t i, Sample& out) {
    if (i == 13) bad(out);
  };
  const auto loader = [&](OnError on_error) {
    return Loader(DatasetPtr(data), {.batch = 4, .workers = 2, .on_error = on_error});
  };
  const auto first = [&] { (void)pass_of(loader(OnError::raise), 0); };
  const auto skipped = [&] {
    const Loader skipping = loader(OnError::skip);
    const Pass pass = pass_of(skipping, 0);
    EXPECT_EQ(pass.values.at("y").size(), 19U);
    return skipping.skipped();
  };
  bad = [](Sample&) { throw FileError("cut off"); };
  EXPECT_EQ(message_of<FileError>(first), "sentence 13: cut off");
  EXPECT_EQ(skipped(), 1);
  bad = [](Sample&) { throw std::runtime_error("no such row"); };
  EXPECT_EQ(message_of<FileError>(first), "sentence 13: no such row");
  EXPECT_EQ(skipped(), 1);
  bad = [](Sample& out) { (void)out.make<float>("x", {3}); };
  EXPECT_EQ(message_of<ShapeError>(first),
            "sentence 13: field 'x' is f32 (3), in other samples f32 (6); where they differ in "
            "length, give LoaderOptions::collate data::pad()");
  EXPECT_EQ(skipped(), 1);
  bad = [](Sample& out) { out.set("z", 1.0f); };
  EXPECT_EQ(message_of<ShapeError>(first),
            "sentence 13: field 'z' is new; other samples have x, y, pair");
  bad = [](Sample& out) { out.set("y", 1.0f); };
  EXPECT_NE(message_of(first).find("field 'y' is f32 (), in other samples i64 ()"),
            std::string::npos);
  bad = [](Sample& out) { (void)out["q"]; };
  EXPECT_NE(message_of(first).find("sentence 13: "), std::string::npos);
  bad = [](Sample& out) { (void)out.make<float>("x", {-1}); };
  EXPECT_THROW(first(), ShapeError);
}

TEST(DatasetErrors, WhatDoesNotFitACollateIsSkipped) {
  const auto data = std::make_shared<Sentences>(20);
  data->before = [](int64_t i, Sample& out) {
    if (i == 13) (void)out.make<float>("grid", {2, 2});
    if (i == 14) throw 42;
  };
  for (const Collate& collate : {pad(), pack()}) {
    const Loader loader(DatasetPtr(data),
                        {.batch = 4, .on_error = OnError::skip, .collate = collate});
    EXPECT_EQ(pass_of(loader, 0).values.at("y").size(), 18U);
    EXPECT_EQ(loader.skipped(), 2);
  }
}

TEST(DatasetErrors, AMissingFieldIsNamed) {
  struct Missing final : Dataset {
    int64_t size() const override { return 8; }
    void get(int64_t i, Sample& out) const override {
      out.set("x", 1.0f);
      if (i != 6) out.set("y", i);
    }
  };
  const Loader loader(std::make_shared<Missing>(), {.batch = 4, .workers = 1});
  EXPECT_EQ(message_of([&] { (void)pass_of(loader, 0); }),
            "sample 6: field 'y' is missing; other samples have it");
}

TEST(DatasetErrors, WhatCannotBeServedIsRefused) {
  struct Empty final : Dataset {
    explicit Empty(int64_t size) : size_(size) {}
    int64_t size() const override { return size_; }
    void get(int64_t, Sample&) const override {}
    int64_t size_;
  };
  const auto message = [](auto make) { return message_of([&] { (void)make(); }); };
  EXPECT_NE(message([] { return Loader(std::make_shared<Empty>(3)); }).find("has no fields"),
            std::string::npos);
  EXPECT_NE(message([] { return Loader(std::make_shared<Empty>(0)); }).find("no samples"),
            std::string::npos);
  EXPECT_NE(message([] { return Loader(DatasetPtr()); }).find("null"), std::string::npos);
  EXPECT_NE(message([] { return Loader(table(), {.raw = true}); }).find("raw"), std::string::npos);
  EXPECT_NE(message([] { return Loader(table(), {.buckets = Buckets{}}); }).find("length()"),
            std::string::npos);
  EXPECT_NE(message([] {
              return Loader(sentences(), {.buckets = Buckets{.growth = 0.5}});
            }).find("grow by 0.5"),
            std::string::npos);
  EXPECT_NE(message([] {
              return DeviceLoader(Loader(table()), Device::cpu(), {.resident = true});
            }).find("resident"),
            std::string::npos);
  EXPECT_NE(message([] { return Loader(table()).source().size(); }).find("not pictures"),
            std::string::npos);
  EXPECT_NE(message([] {
              return from_tensors({{"x", ones({3, 2})}, {"y", ones({4})}});
            }).find("'y' has 4 rows and 'x' 3"),
            std::string::npos);
  EXPECT_THROW(from_tensors({}), ValueError);
  EXPECT_THROW(from_tensors({{"x", ones({3})}, {"x", ones({3})}}), ValueError);
  EXPECT_THROW(from_tensors({{"x", ones({3}, {.device = Device::sim(0)})}}), DeviceError);
  const Loader twice(sentences(8, true), {.batch = 4, .collate = pad({.lengths = "y"})});
  EXPECT_NE(
      message([&] { return pass_of(twice, 0).samples.size(); }).find("two tensors called 'y'"),
      std::string::npos);
  const Loader unlike(concat({table(4), sentences(4)}),
                      {.batch = 8, .shuffle = false, .collate = pad()});
  EXPECT_EQ(message([&] { return pass_of(unlike, 0).samples.size(); }),
            "[collate] sentence 0 has a field 'pair', and sample 0 has none");
  const Loader beyond(table(4), {.sampler = weighted_sampler({0, 0, 0, 0, 1})});
  EXPECT_EQ(message([&] { return pass_of(beyond, 0).samples.size(); }),
            "[loader] the sampler gives sample 4 of a data set of 4");
}

TEST(DatasetErrors, AStallIsNamed) {
  const auto data = std::make_shared<Sentences>(8, false);
  std::atomic<bool> go{false};
  data->before = [&](int64_t i, Sample&) {
    if (i == 2) go.wait(false);
  };
  std::vector<std::string> told;
  LoaderOptions options{.batch = 4, .workers = 1, .shuffle = false};
  options.log = [&](const std::string& line) {
    if (line.find("waited") == std::string::npos) return;
    told.push_back(line);
    go = true;
    go.notify_all();
  };
  const auto state = std::make_shared<Loader::State>(DatasetPtr(data), options);
  state->patience = std::chrono::milliseconds(20);
  Epoch::Pipeline pipeline(state, 0, 0);
  pipeline.start();
  ASSERT_NE(pipeline.next(), nullptr);
  ASSERT_FALSE(told.empty());
  EXPECT_NE(told[0].find("for batch 0: a worker is reading sentence 2"), std::string::npos)
      << told[0];
}

}  // namespace
}  // namespace brim::data
