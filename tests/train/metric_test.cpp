// Metrics against their definitions, written down once more; sums over batches are those over all.
#include <brim/data/pictures.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/shape.h>
#include <brim/train/metric.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "message_of.h"
#include "train/metric/registry.h"

namespace brim::train {
namespace {

/// The value of a metric over these rows, given in two batches, on `device`.
double value_of(const std::string& name, const Tensor& output, const Tensor& y, int64_t outputs,
                Device device = {}) {
  const auto make = [&] { return metric_kind(name).make({.outputs = outputs, .device = device}); };
  const auto metric = make(), merged = make();
  const int64_t n = output.size(0), half = n / 3;
  for (const auto& [from, to] : {std::pair{int64_t{0}, half}, {half, n}}) {
    const auto part = make();
    for (Metric* to_add : {metric.get(), part.get()})
      to_add->add(output.slice(0, from, to).to(device), {.y = y.slice(0, from, to).to(device)});
    merged->merge(part->state());  // as where ranks share a data set
  }
  const double value = metric->value();
  if (!std::isnan(value)) {
    EXPECT_NEAR(merged->value(), value, 1e-12 * (1 + std::abs(value))) << name;
  }
  EXPECT_EQ(merged->classes().size(), metric->classes().size());
  EXPECT_THROW(merged->merge(std::vector<double>(2 + metric->state().size())), ValueError) << name;
  return value;
}

/// Logits of more classes, none of which is the largest.
Tensor pad_to(const Tensor& output, int64_t classes) {
  return cat({output, full({output.size(0), classes - output.size(1)}, -100)}, 1);
}

class MetricTest : public ::testing::TestWithParam<const char*> {
 protected:
  MetricTest() { manual_seed(7); }
  Device device{GetParam()};
};

TEST_P(MetricTest, OfClasses) {
  const Tensor output = randn({90, 8}), y = randint(0, 7, {90});  // class 7 does not occur
  const std::vector<float> logits = output.to_vector<float>();
  const std::vector<int64_t> is = y.to_vector<int64_t>();
  double hits = 0, among = 0;
  std::vector<double> tp(8), said(8), there(8);
  for (size_t i = 0; i < is.size(); ++i) {
    const float* const row = logits.data() + i * 8;
    const auto right = static_cast<size_t>(is[i]);
    const auto best = static_cast<size_t>(std::max_element(row, row + 8) - row);
    hits += best == right;
    among += std::count_if(row, row + 8, [&](float v) { return v > row[right]; }) < 5;
    ++said[best], ++there[right];
    tp[right] += best == right;
  }
  EXPECT_DOUBLE_EQ(value_of("accuracy", output, y, 8, device), hits / 90);
  EXPECT_DOUBLE_EQ(value_of("top5", output, y, 8, device), among / 90);
  const Tensor spread = pad_to(output, 250);  // of more classes than a matrix is kept of
  EXPECT_DOUBLE_EQ(value_of("accuracy", spread, y, 250, device), hits / 90);
  double f1 = 0;
  for (size_t c = 0; c < 8; ++c) f1 += 2 * tp[c] / (said[c] + there[c]);
  EXPECT_DOUBLE_EQ(value_of("f1", output, y, 8, device), f1 / 8);
}

TEST_P(MetricTest, WhichClassIsTakenForWhich) {
  const Tensor output = Tensor::from<float>({0, 2, 1, 3, 2, 1, 0, 1, 2, 0, 2, 1, 1, 0, 0}, {5, 3});
  const Tensor y = Tensor::from<int64_t>({0, 0, 1, 0, 2}, {5});
  const auto counted = [&](const Tensor& logits, int64_t classes) {
    auto metric = metric_kind("accuracy").make({.outputs = classes, .device = device});
    metric->add(logits.to(device), {.y = y.to(device)});
    metric->add(logits.to(device), {.y = y.to(device)});
    return metric;
  };
  const auto metric = counted(output, 3);
  EXPECT_EQ(metric->confusion(),
            (std::vector<std::vector<int64_t>>{{2, 4, 0}, {0, 0, 2}, {2, 0, 0}}));
  EXPECT_EQ(metric->classes()[0].samples, 6);
  EXPECT_EQ(metric->classes()[0].correct, 2);
  const auto many = counted(pad_to(output, 250), 250);
  EXPECT_TRUE(many->confusion().empty());
  EXPECT_EQ(many->classes()[0].samples, 6);
  EXPECT_EQ(many->classes()[0].correct, 2);
  EXPECT_DOUBLE_EQ(many->value(), metric->value());
  if (!device.is_cpu()) return;
  for (const int64_t wrong : {-1, 3}) {
    const Tensor label = Tensor::from<int64_t>({wrong}, {1});
    EXPECT_THROW(metric->add(output.slice(0, 0, 1), {.y = label}), IndexError) << wrong;
  }
}

TEST_P(MetricTest, OfLabels) {
  const int64_t n = 300;
  const Tensor y = bernoulli(full({n, 3}, 0.3));
  const Tensor output = randn({n, 3}) + y;  // above chance
  const std::vector<float> logits = output.to_vector<float>(), is = y.to_vector<float>();
  double right = 0, f1 = 0, precision = 0;
  for (size_t label = 0; label < 3; ++label) {
    std::vector<size_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(
        order, [&](size_t a, size_t b) { return logits[a * 3 + label] > logits[b * 3 + label]; });
    double tp = 0, said = 0, there = 0, hits = 0, seen = 0, gained = 0;
    for (const size_t i : order) {
      const bool yes = logits[i * 3 + label] >= 0, truth = is[i * 3 + label] == 1;
      right += yes == truth;
      tp += yes && truth, said += yes, there += truth;
      ++seen, hits += truth;
      if (truth) gained += hits / seen;
    }
    f1 += 2 * tp / (said + there);
    precision += gained / there;
  }
  EXPECT_DOUBLE_EQ(value_of("label-accuracy", output, y, 3, device),
                   right / static_cast<double>(3 * n));
  EXPECT_DOUBLE_EQ(value_of("f1", output, y, 3, device), f1 / 3);
  // Scores in one of its bins count as equal.
  EXPECT_NEAR(value_of("average-precision", output, y, 3, device), precision / 3, 0.005);
}

TEST_P(MetricTest, OfNumbers) {
  const Tensor y = randn({50, 2}) * 3 + 1000, output = y + randn({50, 2});
  const std::vector<float> said = output.to_vector<float>(), is = y.to_vector<float>();
  double absolute = 0, squares = 0, r2 = 0;
  for (size_t column = 0; column < 2; ++column) {
    double mean = 0, errors = 0, spread = 0;
    for (size_t i = column; i < is.size(); i += 2) mean += is[i] / 50.0;
    for (size_t i = column; i < is.size(); i += 2) {
      const double off = double{said[i]} - is[i];
      absolute += std::abs(off);
      errors += off * off;
      spread += (is[i] - mean) * (is[i] - mean);
    }
    squares += errors;
    r2 += 1 - errors / spread;
  }
  EXPECT_NEAR(value_of("mae", output, y, 2, device), absolute / 100, 1e-6);
  EXPECT_NEAR(value_of("rmse", output, y, 2, device), std::sqrt(squares / 100), 1e-6);
  EXPECT_NEAR(value_of("r2", output, y, 2, device), r2 / 2, 1e-6);
  // One column, whose y has no axis for it.
  const Tensor one = y.select(1, 0).contiguous();
  EXPECT_NEAR(value_of("mae", one.unsqueeze(1) + 2, one, 1, device), 2, 1e-4);
}

TEST_P(MetricTest, OfMasks) {
  Tensor y = randint(0, 3, {6, 4, 5});
  const Tensor output = randn({6, 4, 4, 5});  // class 3 is said, and never there
  y.select(0, 2).fill_(static_cast<double>(data::kIgnoredClass));
  const std::vector<float> logits = output.to_vector<float>();
  const std::vector<int64_t> is = y.to_vector<int64_t>();
  std::vector<double> hits(4), said(4), there(4);
  double right = 0, seen = 0;
  for (size_t i = 0; i < is.size(); ++i) {
    if (is[i] == data::kIgnoredClass) continue;
    size_t best = 0;
    const size_t first = i / 20 * 80 + i % 20;
    for (size_t c = 1; c < 4; ++c)
      if (logits[first + c * 20] > logits[first + best * 20]) best = c;
    const auto truth = static_cast<size_t>(is[i]);
    ++said[best], ++there[truth], ++seen;
    hits[truth] += best == truth;
    right += best == truth;
  }
  double iou = 0;
  for (size_t c = 0; c < 4; ++c) iou += hits[c] / (said[c] + there[c] - hits[c]);
  EXPECT_DOUBLE_EQ(value_of("mean-iou", output, y, 4, device), iou / 4);
  EXPECT_DOUBLE_EQ(value_of("pixel-accuracy", output, y, 4, device), right / seen);
  const auto metric = metric_kind("mean-iou").make({.outputs = 4, .device = device});
  metric->add(output.to(device), {.y = y.to(device)});
  const std::vector<ClassCount> counts = metric->classes();
  ASSERT_EQ(counts.size(), 4U);
  for (size_t c = 0; c < 4; ++c) {
    EXPECT_EQ(counts[c].samples, static_cast<int64_t>(there[c]));
    EXPECT_EQ(counts[c].correct, static_cast<int64_t>(hits[c]));
  }
}

TEST_P(MetricTest, OfTokens) {
  const Tensor output = randn({9, 5, 11}), y = randint(0, 11, {9, 5});
  const double nats = cross_entropy(output.flatten(0, 1), y.flatten()).item();
  EXPECT_NEAR(value_of("perplexity", output, y, 11, device), std::exp(nats), 1e-4);
  EXPECT_NEAR(value_of("bits-per-byte", output, y, 11, device), nats / std::log(2.0), 1e-5);
  const std::vector<float> logits = output.to_vector<float>();
  const std::vector<int64_t> is = y.to_vector<int64_t>();
  double hits = 0;
  for (size_t i = 0; i < is.size(); ++i) {
    const float* const row = logits.data() + i * 11;
    hits += std::max_element(row, row + 11) - row == is[i];
  }
  EXPECT_DOUBLE_EQ(value_of("token-accuracy", output, y, 11, device), hits / 45);
}

INSTANTIATE_TEST_SUITE_P(Devices, MetricTest, ::testing::Values("cpu", "sim:0"),
                         [](const auto& device) { return std::string(device.param).substr(0, 3); });

TEST(Metrics, NothingAddedIsNaN) {
  for (const std::string& name : metric_names())
    EXPECT_TRUE(std::isnan(metric_kind(name).make({.outputs = 3})->value())) << name;
}

TEST(Metrics, OfOtherTasksAreErrors) {
  // Shapes that would broadcast to something.
  const Tensor tokens = randn({4, 8, 8}), ids = zeros({4, 8}, {.dtype = i64});
  for (const char* name : {"accuracy", "top5", "f1", "mean-iou", "rmse", "label-accuracy"})
    EXPECT_THROW((void)value_of(name, tokens, ids, 8), Error) << name;
  const Tensor logits = randn({6, 6}), classes = zeros({6}, {.dtype = i64});
  for (const char* name :
       {"mae", "r2", "label-accuracy", "average-precision", "pixel-accuracy", "perplexity"})
    EXPECT_THROW((void)value_of(name, logits, classes, 6), Error) << name;
  const Tensor labels = zeros({6, 6});
  for (const char* name : {"accuracy", "top5", "token-accuracy"})
    EXPECT_THROW((void)value_of(name, logits, labels, 6), Error) << name;
}

TEST(Metrics, NamesAreKnownOrSuggested) {
  const std::string text = tests::message_of([] { (void)metric_kind("acuracy"); });
  EXPECT_NE(text.find("did you mean 'accuracy'?"), std::string::npos) << text;
  EXPECT_THROW((void)register_metric("accuracy", metric_kind("f1")), ValueError);
  EXPECT_THROW((void)metric_kind("bits-per-byte").make({.outputs = 50'000}), ValueError);
}

}  // namespace
}  // namespace brim::train
