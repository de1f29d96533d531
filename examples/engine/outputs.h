// What an engine puts out of classes: scores, probabilities, the likeliest, or the likeliest one.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <brim_rt.hpp>

struct Class {
  int index;
  float probability;  // below 0: the engine does not say
};

/// Memory for all outputs of a session.
class Outputs {
 public:
  Outputs(const brim_rt::Model& model, const brim_rt::Session& session)
      : ports_(session.outputs()) {
    is_softmax_ = model.metadata("output").value_or("") == "softmax";
    const std::string task = model.metadata("task").value_or("classify");
    if (task != "classify")
      throw std::runtime_error("the engine is for the task '" + task + "', not for one class");
    for (const brim_rt_port& port : ports_) {
      memory_.emplace_back(port.bytes / sizeof(double) + 1);
      pointers_.push_back(memory_.back().data());
    }
  }
  void* const* pointers() const { return pointers_.data(); }

  /// The likeliest classes of the first sample, `top` at most.
  std::vector<Class> likeliest(size_t top) const {
    const brim_rt_port& first = ports_.at(0);
    std::vector<Class> all;
    if (first.rank == 1 && first.dtype == BRIM_RT_I32) return {{of<int>(0)[0], -1}};
    if (first.rank != 2 || first.dtype != BRIM_RT_F32)
      throw std::runtime_error("the engine puts out no classes");
    const auto count = static_cast<int>(first.shape[1]);
    const bool is_chosen = ports_.size() == 2 && ports_[1].dtype == BRIM_RT_I32;
    const float* const scores = of<float>(0);
    const float largest = *std::max_element(scores, scores + count);
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += std::exp(scores[i] - largest);
    for (int i = 0; i < count; ++i)
      all.push_back({is_chosen ? of<int>(1)[i] : i,
                     is_chosen || is_softmax_ ? scores[i] : std::exp(scores[i] - largest) / sum});
    std::stable_sort(all.begin(), all.end(),
                     [](const Class& a, const Class& b) { return a.probability > b.probability; });
    all.resize(std::min(top, all.size()));
    return all;
  }

 private:
  template <class T>
  const T* of(size_t i) const {
    return static_cast<const T*>(pointers_[i]);
  }
  std::vector<brim_rt_port> ports_;
  std::vector<std::vector<double>> memory_;
  std::vector<void*> pointers_;
  bool is_softmax_ = false;
};
