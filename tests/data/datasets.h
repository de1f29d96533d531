// Data sets for tests of feeding: one of a user's own, of fixed or variable length, some of whose
// samples may be broken.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <brim/data/dataset.h>
#include <brim/data/loader.h>
#include <brim/ops/create.h>

namespace brim::tests {

/// Sample i has "x", length(i) floats of which some are drawn, "y", and "pair" of two i32.
class Sentences final : public data::Dataset {
 public:
  explicit Sentences(int64_t size, bool variable = true) : size_(size), variable_(variable) {}
  int64_t size() const override { return size_; }
  int64_t length(int64_t i) const override { return variable_ ? 1 + i * i % 23 : 6; }
  std::string describe(int64_t i) const override { return "sentence " + std::to_string(i); }
  void get(int64_t i, data::Sample& out) const override {
    if (before) before(i, out);
    const auto x = out.make<float>("x", {length(i)});
    for (size_t k = 0; k < x.size(); ++k)
      x[k] = static_cast<float>(i) + (k % 2 == 0 ? out.random().unit() : 0.5f);
    out.set("y", i % 7);
    const auto pair = out.make<int32_t>("pair", {2});
    pair[0] = static_cast<int32_t>(i), pair[1] = -pair[0];
  }
  /// Called first: throws, or fills the sample otherwise.
  std::function<void(int64_t, data::Sample&)> before;

 private:
  int64_t size_;
  bool variable_;
};

inline data::DatasetPtr sentences(int64_t size = 61, bool variable = false) {
  return std::make_shared<Sentences>(size, variable);
}

inline data::DatasetPtr table(int64_t rows = 61) {
  return data::from_tensors({{"x", arange(0, rows * 3, 1, {.dtype = f32}).view({rows, 3})},
                             {"y", arange(0, rows, 1, {.dtype = i64})}});
}

/// All that batches hold, by field.
struct Pass {
  std::map<std::string, std::vector<double>> values;
  std::map<std::string, std::vector<std::string>> shapes;
  std::vector<std::vector<int64_t>> samples;
  bool operator==(const Pass&) const = default;
};

inline void add(Pass& pass, const data::Batch& batch) {
  const auto field = [&](const std::string& name, const Tensor& t) {
    if (!t.defined()) return;
    pass.shapes[name].push_back(t.shape().str());
    const Tensor values = t.to(Device::cpu()).to(f64);
    for (const double v : values.to_vector<double>()) pass.values[name].push_back(v);
  };
  field("x", batch.x);
  field("y", batch.y);
  for (const data::NamedTensor& f : batch.fields) field(f.name, f.tensor);
  pass.samples.push_back(batch.samples);
}

template <class AnyLoader>
Pass pass_of(AnyLoader&& loader, int64_t epoch, int64_t first_batch = 0) {
  Pass pass;
  for (const data::Batch& batch : loader.epoch(epoch, first_batch)) add(pass, batch);
  return pass;
}

}  // namespace brim::tests
