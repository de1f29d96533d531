// Built-in data, to try tasks with: "NAME" or "NAME:SEED".
#include <charconv>
#include <numbers>

#include <cmath>

#include "core/check.h"
#include "data/keyed.h"
#include "train/task/open.h"

namespace brim::train {
namespace {

uint64_t seed_of(const std::string& parameters, const Recipe& recipe) {
  uint64_t seed = 0;
  if (parameters.empty()) return seed;
  const char* const end = parameters.data() + parameters.size();
  const auto [at, error] = std::from_chars(parameters.data(), end, seed);
  BRIM_CHECK(error == std::errc() && at == end, ValueError,
             "[data] {}: the seed after the colon must be a whole number from 0 to 2^64-1",
             recipe.data);
  return seed;
}

/// y = 10 sin(pi x0 x1) + 20 (x2 - 0.5)^2 + 10 x3 + 5 x4 + noise, of ten features in [0, 1)
/// (Friedman, "Multivariate adaptive regression splines", Annals of Statistics 1991). The noise is
/// a sum of twelve draws, with deviation 1, so no regression has an RMSE below that.
class Friedman final : public data::Dataset {
 public:
  Friedman(data::Split split, uint64_t seed)
      : first_(split == data::Split::test ? kTrain : 0),
        size_(split == data::Split::train  ? kTrain
              : split == data::Split::test ? kTest
                                           : kTrain + kTest),
        seed_(seed) {}
  int64_t size() const override { return size_; }
  void get(int64_t i, data::Sample& out) const override {
    data::KeyedRandom random(data::key64(seed_, 0x66726965, static_cast<uint64_t>(first_ + i)));
    const std::span<float> x = out.make<float>("x", {kFeatures});
    for (float& value : x) value = random.unit();
    float noise = -6;
    for (int k = 0; k < 12; ++k) noise += random.unit();
    const float half = x[2] - 0.5f;
    out.set("y", 10 * std::sin(std::numbers::pi_v<float> * x[0] * x[1]) + 20 * half * half +
                     10 * x[3] + 5 * x[4] + noise);
  }
  bool in_memory() const override { return true; }

  static constexpr int64_t kFeatures = 10;

 private:
  static constexpr int64_t kTrain = 8000, kTest = 2000;
  const int64_t first_, size_;
  const uint64_t seed_;
};

TaskData open_friedman(const std::string& parameters, const Recipe& recipe,
                       const DataRequest& request) {
  TaskData data{.samples = std::make_shared<Friedman>(request.split, seed_of(parameters, recipe)),
                .outputs = 1,
                .names = {"y"}};
  for (int64_t k = 0; k < Friedman::kFeatures; ++k) data.columns.push_back(fmt::format("x{}", k));
  return data;
}

const bool registered_drawn =
    register_data("friedman1", open_friedman) &&
    register_data("shapes-masks",
                  [](const std::string& parameters, const Recipe& recipe, const DataRequest& r) {
                    return picture_data(data::open_shapes_masks(
                        r.split, picture_options(recipe, r.training), seed_of(parameters, recipe)));
                  }) &&
    register_data("shapes-labels",
                  [](const std::string& parameters, const Recipe& recipe, const DataRequest& r) {
                    return picture_data(data::open_shapes_labels(
                        r.split, picture_options(recipe, r.training), seed_of(parameters, recipe)));
                  });

}  // namespace
}  // namespace brim::train
