// Default initial values of layers against PyTorch: generators differ, so their distributions are
// compared, over twenty modules of each kind.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numbers>

#include <brim/core/random.h>
#include <brim/nn/nn.h>

#include "golden/golden_case.h"

namespace golden {
namespace {

namespace nn = brim::nn;

using Make = std::function<std::unique_ptr<nn::Module>(const Call&)>;

const std::map<std::string, Make> kModules = {
    {"linear",
     [](const Call& c) {
       return std::make_unique<nn::Linear>(
           nn::Linear::Options{.in = c.get<int64_t>("in"), .out = c.get<int64_t>("out")});
     }},
    {"conv2d",
     [](const Call& c) {
       return std::make_unique<nn::Conv2d>(nn::Conv2d::Options{.in = c.get<int64_t>("in"),
                                                               .out = c.get<int64_t>("out"),
                                                               .kernel = c.get<int64_t>("kernel"),
                                                               .groups = c.get<int64_t>("groups")});
     }},
    {"batch_norm2d",
     [](const Call& c) {
       return std::make_unique<nn::BatchNorm2d>(
           nn::BatchNorm2d::Options{.features = c.get<int64_t>("features")});
     }},
    {"layer_norm",
     [](const Call& c) {
       return std::make_unique<nn::LayerNorm>(
           nn::LayerNorm::Options{.shape = {c.get<int64_t>("features")}});
     }},
    {"embedding",
     [](const Call& c) {
       nn::Embedding::Options o{.num = c.get<int64_t>("num"), .dim = c.get<int64_t>("dim")};
       if (c.has("padding_idx")) o.padding_idx = c.get<int64_t>("padding_idx");
       return std::make_unique<nn::Embedding>(o);
     }},
};

/// "conv2d_groups" is a conv2d.
const Make& module_of(const std::string& name) {
  const auto exact = kModules.find(name);
  return exact != kModules.end() ? exact->second : kModules.at(name.substr(0, name.rfind('_')));
}

/// The largest distance of the sample's distribution from `cdf` (Kolmogorov and Smirnov).
double distance(std::vector<double> sample, const std::function<double(double)>& cdf) {
  std::sort(sample.begin(), sample.end());
  const double n = static_cast<double>(sample.size());
  double largest = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double p = cdf(sample[i]), at = static_cast<double>(i);
    largest = std::max({largest, p - at / n, (at + 1) / n - p});
  }
  return largest;
}

struct Moments {
  double mean = 0, std = 0;
};

Moments moments(const std::vector<double>& sample) {
  const double n = static_cast<double>(sample.size());
  Moments m;
  for (double v : sample) m.mean += v;
  m.mean /= n;
  for (double v : sample) m.std += (v - m.mean) * (v - m.mean);
  m.std = std::sqrt(m.std / n);
  return m;
}

void expect_distribution(std::vector<double> sample, const Json& kind) {
  const double n = static_cast<double>(sample.size());
  const double limit = 2.2 / std::sqrt(n);  // exceeded by chance in one of 8,000 samples
  const std::string text = kind.at("kind").get<std::string>();
  if (text == "constant") {
    const double value = kind.at("value").get<double>();
    EXPECT_TRUE(std::all_of(sample.begin(), sample.end(), [&](double v) { return v == value; }));
  } else if (text == "uniform") {
    const double bound = kind.at("bound").get<double>(), ulp = 1 + 1e-7;
    EXPECT_LE(*std::max_element(sample.begin(), sample.end()), bound * ulp);
    EXPECT_GE(*std::min_element(sample.begin(), sample.end()), -bound * ulp);
    EXPECT_LT(distance(std::move(sample), [&](double v) { return (v / bound + 1) / 2; }), limit);
  } else {
    ASSERT_EQ(text, "normal");
    const double mean = kind.at("mean").get<double>(), std = kind.at("std").get<double>();
    EXPECT_LT(distance(std::move(sample),
                       [&](double v) {
                         return std::erfc(-(v - mean) / std * std::numbers::sqrt2 / 2) / 2;
                       }),
              limit);
  }
}

TEST(Golden, Init) {
  const File file("init");
  size_t checked = 0;
  for (const auto& [name, text] : file.metadata) {
    if (name == "torch") continue;
    SCOPED_TRACE(name);
    const Json described = Json::parse(text);
    const Call call{{}, described.at("options")};
    brim::manual_seed(7);
    std::map<std::string, std::vector<double>> samples;
    for (int i = 0; i < 20; ++i) {
      const auto module = module_of(name)(call);
      for (const auto& [key, value] : module->state_dict()) {
        if (!brim::is_floating(value.dtype())) continue;
        const auto values = value.to(brim::f64).to_vector<double>();
        EXPECT_EQ(value.shape(), Call({{}, described.at("parameters").at(key)}).shape("shape"));
        auto& sample = samples[key];
        sample.insert(sample.end(), values.begin(), values.end());
      }
    }
    EXPECT_EQ(samples.size(), described.at("parameters").size());
    for (auto& [key, sample] : samples) {
      SCOPED_TRACE(key);
      const auto torch =
          file.at(name + "/" + key).to_vector<double>();  // least, largest, mean, std
      const Moments ours = moments(sample);
      const double error = 5 * std::sqrt(2 / static_cast<double>(sample.size())) * torch[3];
      EXPECT_NEAR(ours.mean, torch[2], error);
      EXPECT_NEAR(ours.std, torch[3], error);
      // The padding row is zero and no part of the distribution.
      if (call.has("padding_idx")) {
        EXPECT_EQ(std::erase(sample, 0.0), 20 * call.get<size_t>("dim"));
      }
      expect_distribution(std::move(sample), described.at("parameters").at(key));
      ++checked;
    }
  }
  EXPECT_EQ(checked, 14u);
}

}  // namespace
}  // namespace golden
