// What SummaryWriter writes, field by field. tests/train/read_by_tensorboard.py has TensorBoard
// itself read it.
#include <brim/train/summary_writer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include <brim/core/device.h>
#include <brim/deploy/summary.h>
#include <brim/nn/nn.h>
#include <brim/ops/create.h>
#include <brim/ops/unary.h>

#include "io/event_reader.h"
#include "message_of.h"
#include "temporary_folder.h"
#include "train/full_disk.h"

namespace brim::train {
namespace {

using tests::ProtobufReader;

class SummaryWriterTest : public testing::Test {
 protected:
  /// What `write` puts into a file behind its version, an event each.
  template <class F>
  std::vector<ProtobufReader> written(const F& write) {
    std::string path;
    {
      SummaryWriter writer(folder / "events");
      write(writer);
      path = writer.path();
    }
    auto events = tests::read_events(path);
    events.erase(events.begin());
    return events;
  }
  static ProtobufReader value_of(const ProtobufReader& event) {
    return event.message(5).message(1);
  }
  static std::string refusal(const std::function<void()>& add) {
    return tests::message_of<ValueError>(add);
  }

  tests::TemporaryFolder folder;
};

struct GraphNet : nn::Module {
  nn::Sequential& body = add<nn::Sequential>("body");
  nn::Linear& head = add<nn::Linear>("head", {.in = 3, .out = 3});
  GraphNet() { body.push<nn::Linear>({.in = 4, .out = 3}).push<nn::Tanh>(); }
  Tensor forward(const Tensor& x) override { return head(exp(head(body(x)))); }
};

/// The names of what a node reads of.
std::vector<std::string> inputs_of(const ProtobufReader& node) {
  std::vector<std::string> names;
  for (size_t i = 0; i < node.count(3); ++i) names.push_back(node.text(3, i));
  return names;
}

TEST_F(SummaryWriterTest, GraphsHaveANodeForEachModule) {
  const auto events = written([](SummaryWriter& w) {
    GraphNet net;
    w.add_graph(deploy::summarize(net, zeros({2, 4})));
  });
  ASSERT_EQ(events.size(), 1U);
  const ProtobufReader graph = events[0].message(4);
  std::map<std::string, ProtobufReader> nodes;
  for (size_t i = 0; i < graph.count(1); ++i)
    nodes.emplace(graph.message(1, i).text(1), graph.message(1, i));
  EXPECT_EQ(nodes.size(), graph.count(1));  // names are unique
  EXPECT_EQ(nodes.at("input").text(2), "Placeholder");
  EXPECT_EQ(nodes.at("body/0").text(2), "Linear");
  EXPECT_EQ(inputs_of(nodes.at("body/0")), std::vector<std::string>{"input"});
  EXPECT_EQ(inputs_of(nodes.at("body/1")), std::vector<std::string>{"body/0"});
  EXPECT_EQ(inputs_of(nodes.at("head")), std::vector<std::string>{"body/1"});
  ASSERT_TRUE(nodes.contains("exp"));  // what the network computes itself
  ASSERT_TRUE(nodes.contains("head_1"));
  EXPECT_EQ(inputs_of(nodes.at("head_1")), std::vector<std::string>{"exp"});
  const ProtobufReader shape = nodes.at("body/0").message(5);  // _output_shapes
  EXPECT_EQ(shape.text(1), "_output_shapes");
  const ProtobufReader sizes = shape.message(2).message(1).message(7);
  EXPECT_EQ(sizes.message(2, 0).number(1), 2);
  EXPECT_EQ(sizes.message(2, 1).number(1), 3);
}

TEST_F(SummaryWriterTest, GraphsHaveANodeForEachInput) {
  const auto events = written([](SummaryWriter& w) {
    GraphNet net;
    const Tensor examples[] = {zeros({2, 4}), zeros({2, 3}, {.dtype = f64})};
    w.add_graph(deploy::summarize(net, examples, [&](std::span<const Tensor> x) {
      return std::vector<Tensor>{net(x[0]), exp(x[1])};
    }));
  });
  const ProtobufReader graph = events.at(0).message(4);
  std::map<std::string, ProtobufReader> nodes;
  for (size_t i = 0; i < graph.count(1); ++i)
    nodes.emplace(graph.message(1, i).text(1), graph.message(1, i));
  EXPECT_EQ(nodes.at("input").text(2), "Placeholder");
  EXPECT_EQ(nodes.at("input_1").text(2), "Placeholder");
  EXPECT_EQ(inputs_of(nodes.at("body/0")), std::vector<std::string>{"input"});
  EXPECT_EQ(inputs_of(nodes.at("exp_1")), std::vector<std::string>{"input_1"});
}

TEST_F(SummaryWriterTest, ScalarsHaveTagStepAndValue) {
  const auto events = written([](SummaryWriter& w) {
    w.add_scalar("loss", 0.25, 3);
    w.add_scalar("bad \xff name", std::nan(""), 4);
  });
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].number(2), 3);
  EXPECT_EQ(value_of(events[0]).text(1), "loss");
  EXPECT_EQ(value_of(events[0]).f32(2), 0.25F);
  EXPECT_EQ(value_of(events[1]).text(1), "bad ? name");
  EXPECT_TRUE(std::isnan(value_of(events[1]).f32(2)));
}

TEST_F(SummaryWriterTest, HistogramsCountEveryFiniteValueOnce) {
  const std::vector<float> values = {0, -1, 1, 1e-20F, 3e38F, -3e38F, 0.5F, 0.5F, NAN, INFINITY};
  const auto events = written([&](SummaryWriter& w) {
    w.add_histogram("w", Tensor::from(values, {static_cast<int64_t>(values.size())}), 0);
  });
  const ProtobufReader histogram = value_of(events.at(0)).message(5);
  EXPECT_EQ(histogram.f64(1), -3e38F);
  EXPECT_EQ(histogram.f64(2), 3e38F);
  EXPECT_EQ(histogram.f64(3), 8);
  EXPECT_NEAR(histogram.f64(4), 1, 1e-6);
  const std::vector<double> limits = histogram.all_f64(6), counts = histogram.all_f64(7);
  ASSERT_EQ(limits.size(), counts.size());
  EXPECT_TRUE(std::ranges::is_sorted(limits));
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0), 8);
  // Each value lies in a bucket that counts it: below its limit, above the one before.
  for (const double value : {0.0, -1.0, 1.0, 0.5}) {
    const auto k = std::ranges::upper_bound(limits, value) - limits.begin();
    ASSERT_LT(k, std::ssize(limits));
    EXPECT_GE(counts[static_cast<size_t>(k)], value == 0.5 ? 2 : 1) << value;
  }
}

TEST_F(SummaryWriterTest, HistogramsCountValuesBelowTheLimitsOfTheirBuckets) {
  std::vector<double> values;
  for (int n = 0; n < 7736; ++n) {
    const auto limit = static_cast<double>(1e-12L * std::pow(1.1L, static_cast<long double>(n)));
    for (const double factor : {1.0, 1.00001, 1.05, 1.09999})
      values.push_back(limit * factor), values.push_back(-limit * factor);
  }
  values.push_back(std::numeric_limits<double>::max());
  values.push_back(std::numeric_limits<double>::denorm_min());
  const auto events = written([&](SummaryWriter& w) {
    w.add_histogram("w", Tensor::from(values, {std::ssize(values)}), 0);
  });
  const ProtobufReader histogram = value_of(events.at(0)).message(5);
  const std::vector<double> limits = histogram.all_f64(6), counts = histogram.all_f64(7);
  ASSERT_EQ(limits.size(), counts.size());
  for (size_t k = 1; k < limits.size(); ++k) {
    if (limits[k - 1] <= 0) continue;
    EXPECT_NEAR(limits[k] / limits[k - 1], 1.1, 0.01) << limits[k];
  }
  std::ranges::sort(values);
  double below = 0;
  for (size_t k = 0; k < limits.size(); ++k) {
    below += counts[k];
    const double inside = limits[k] * (limits[k] > 0 ? 1 - 1e-9 : 1 + 1e-9),
                 beyond = limits[k] * (limits[k] > 0 ? 1 + 1e-9 : 1 - 1e-9);
    EXPECT_GE(below, std::ranges::lower_bound(values, inside) - values.begin()) << limits[k];
    EXPECT_LE(below, std::ranges::upper_bound(values, beyond) - values.begin()) << limits[k];
  }
}

TEST_F(SummaryWriterTest, HistogramsAreOfAnyTypeAndDevice) {
  const auto events = written([](SummaryWriter& w) {
    w.add_histogram("f64", ones({2, 3}).to(DType::f64), 0);
    w.add_histogram("bf16", ones({4}).to(DType::bf16), 0);
    w.add_histogram("i64", ones({5}).to(DType::i64), 0);
    if (Device::count(DeviceKind::sim) > 0) w.add_histogram("sim", ones({6}).to(Device::sim(0)), 0);
  });
  for (const ProtobufReader& event : events) {
    const ProtobufReader histogram = value_of(event).message(5);
    EXPECT_EQ(histogram.f64(1), 1) << value_of(event).text(1);
    EXPECT_EQ(histogram.f64(4), histogram.f64(3));
  }
}

TEST_F(SummaryWriterTest, PicturesArePngs) {
  const auto events = written([](SummaryWriter& w) {
    w.add_image("grey", zeros({1, 2, 3}), 0);
    w.add_image("colour", full({3, 4, 5}, 7).to(DType::u8), 1);
    w.add_image("too bright", full({1, 1, 1}, 9), 2);
  });
  ASSERT_EQ(events.size(), 3U);
  const ProtobufReader image = value_of(events[1]).message(4);
  EXPECT_EQ(image.number(1), 4);
  EXPECT_EQ(image.number(2), 5);
  EXPECT_EQ(image.number(3), 3);
  EXPECT_TRUE(image.text(4).starts_with("\x89PNG\r\n"));
}

TEST_F(SummaryWriterTest, TextsAndHyperParameters) {
  const auto events = written([](SummaryWriter& w) {
    w.add_text("note", "two\nlines", 5);
    w.add_hparams({{"lr", 0.5}, {"optimizer", std::string("sgd")}}, {"loss"});
  });
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(value_of(events[0]).message(8).text(8), "two\nlines");
  EXPECT_EQ(value_of(events[0]).message(9).message(1).text(1), "text");
  EXPECT_EQ(value_of(events[1]).text(1), "_hparams_/experiment");
  const ProtobufReader experiment = value_of(events[1]).message(9).message(1).message(2).message(2);
  EXPECT_EQ(experiment.count(4), 2U);
  EXPECT_EQ(experiment.message(5).message(1).text(2), "loss");
}

TEST_F(SummaryWriterTest, ARunThatGoesOnSaysWhatHoldsNoMore) {
  const SummaryWriter writer(folder / "events", 8);
  const auto events = tests::read_events(writer.path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].number(2), 8);
}

TEST_F(SummaryWriterTest, AnyThreadMayAdd) {
  const auto events = written([](SummaryWriter& w) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&w] {
        for (int i = 0; i < 100; ++i) w.add_scalar("x", i, i);
      });
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(events.size(), 400U);
}

TEST_F(SummaryWriterTest, WhatCannotBeShownIsRefused) {
  SummaryWriter w(folder / "events");
  EXPECT_NE(refusal([&] { w.add_histogram("none", zeros({0}), 0); }).find("there must be one"),
            std::string::npos);
  EXPECT_NE(refusal([&] { w.add_histogram("nan", full({3}, NAN), 0); }).find("none of them is"),
            std::string::npos);
  for (const Shape& shape : {Shape{3}, Shape{2, 4, 4}, Shape{1, 0, 4}, Shape{1, 3, 4, 4}})
    EXPECT_NE(refusal([&] { w.add_image("odd", zeros(shape), 0); }).find(shape.str()),
              std::string::npos);
  EXPECT_NE(refusal([&] {
              w.add_image("long", zeros({1, 4, 4}).to(DType::i64), 0);
            }).find("i64"),
            std::string::npos);
}

TEST_F(SummaryWriterTest, AFullDiskIsToldByName) {
  SummaryWriter w(folder / "events");
  tests::FullDisk disk;
  disk.set(true);
  const std::string error = tests::message_of<FileError>([&] {
    w.add_text("long", std::string(100000, 'x'), 0);
    w.flush();
  });
  disk.set(false);
  EXPECT_NE(error.find(w.path()), std::string::npos) << error;
}

/// For read_by_tensorboard.py, which says where.
TEST_F(SummaryWriterTest, ForTensorBoard) {
  const char* const kept = std::getenv("BRIM_TENSORBOARD_FOLDER");
  if (!kept) GTEST_SKIP() << "BRIM_TENSORBOARD_FOLDER is not set";
  SummaryWriter w(kept);
  for (int step = 0; step < 5; ++step) w.add_scalar("loss", 1.0 / (1 + step), step);
  w.add_histogram("weights", arange(0, 100), 1);
  w.add_image("picture", full({3, 4, 5}, 0.5), 2);
  w.add_text("note", "# A note", 3);
  w.add_hparams({{"lr", 0.5}, {"optimizer", std::string("sgd")}}, {"loss"});
  GraphNet net;
  w.add_graph(deploy::summarize(net, zeros({2, 4})));
}

}  // namespace
}  // namespace brim::train
