// Iterable data sets for tests: one of a user's own, and files of lines.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <brim/data/iterable.h>
#include <brim/data/loader.h>

#include "data/datasets.h"

namespace brim::tests {

/// Sample i has "x", floats of which some are drawn, and "y", i of epoch 0.
class Walk final : public data::IterableDataset {
 public:
  explicit Walk(int64_t size, bool variable = false) : size_(size), variable_(variable) {}
  void begin(int64_t epoch) override {
    at_ = 0;
    epoch_ = epoch;
  }
  bool next(data::Sample& out) override {
    if (at_ == size_) return false;
    const int64_t i = at_++;
    if (before) before(i, out);
    const auto x = out.make<float>("x", {variable_ ? 1 + i * i % 7 : 3});
    for (size_t k = 0; k < x.size(); ++k)
      x[k] = static_cast<float>(i) + (k % 2 == 0 ? out.random().unit() : 0.5f);
    out.set("y", i + 1000 * epoch_);
    return true;
  }
  std::string state() const override { return std::to_string(at_); }
  void load_state(const std::string& state) override { at_ = std::stoll(state); }
  std::string describe() const override { return "walk"; }
  /// Called first: throws, or fills the sample otherwise.
  std::function<void(int64_t, data::Sample&)> before;

 private:
  const int64_t size_;
  const bool variable_;
  int64_t at_ = 0, epoch_ = 0;
};

inline std::shared_ptr<Walk> walk(int64_t size = 61, bool variable = false) {
  return std::make_shared<Walk>(size, variable);
}

/// Adds a number that is drawn for each sample.
inline data::IterablePtr noisy(data::IterablePtr from) {
  return data::map(std::move(from), [](const data::Sample& in, data::Sample& out) {
    for (const data::SampleField& field : in.fields()) out.set(field);
    out.set("noise", out.random().unit());
  });
}

inline data::LoaderOptions options_of(int workers, int64_t batch = 4) {
  return {.batch = batch, .workers = workers, .shuffle = false};
}

inline data::LoaderOptions reading(int workers, data::OnError on_error = data::OnError::raise) {
  return {.batch = 4, .workers = workers, .shuffle = false, .on_error = on_error};
}

/// `size` numbers.
inline std::vector<int64_t> range(int64_t size, int64_t from = 0, int64_t step = 1) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < size; ++i) all.push_back(from + i * step);
  return all;
}

inline std::string write_lines(const std::string& path, int64_t lines) {
  std::ofstream file(path);
  for (int64_t i = 0; i < lines; ++i)
    file << std::string(static_cast<size_t>(i * i % 11), 'a') << i << '\n';
  return path;
}

}  // namespace brim::tests
