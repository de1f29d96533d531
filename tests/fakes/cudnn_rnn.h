// Recurrent layers of the fake of libcudnn.so.9: descriptors, and where a layer's weights lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fakes/cudnn_fake.h"

struct cudnnDropoutStruct {
  bool is_set = false;
};
struct cudnnRNNStruct {
  bool is_set = false;
  cudnnRNNMode_t mode{};
  cudnnRNNBiasMode_t bias{};
  cudnnDataType_t type{};
  cudnnMathType_t math{};
  int64_t in = 0, hidden = 0;

  bool is_lstm() const { return mode == CUDNN_LSTM; }
  int64_t gates() const { return is_lstm() ? 4 : 3; }
};
struct cudnnRNNDataStruct {
  cudnnDataType_t type{};
  int64_t steps = 0, batch = 0, size = 0;
};

namespace brim::fake {

/// Where the matrices and vectors of a layer lie in its weight space, in elements: side by side,
/// or with gaps between them, where a test wants that.
class RnnWeights {
 public:
  explicit RnnWeights(const cudnnRNNStruct& rnn) : rnn_(rnn), gap_(wanted("rnn-gaps") ? 24 : 0) {}

  /// `part`: a linear layer's number, those of the input first.
  int64_t columns(int64_t part) const { return part < rnn_.gates() ? rnn_.in : rnn_.hidden; }
  int64_t matrix(int64_t part) const {
    int64_t at = 0;
    for (int64_t before = 0; before < part; ++before) at += rnn_.hidden * columns(before) + gap_;
    return at;
  }
  int64_t vector(int64_t part) const {
    return matrix(2 * rnn_.gates()) + part * (rnn_.hidden + gap_);
  }
  bool has_vectors() const { return rnn_.bias == CUDNN_RNN_DOUBLE_BIAS; }
  int64_t count() const {
    return has_vectors() ? vector(2 * rnn_.gates()) : matrix(2 * rnn_.gates());
  }
  int64_t bytes() const { return count() * elements(rnn_.type).size; }

 private:
  const cudnnRNNStruct& rnn_;
  int64_t gap_;
};

/// What the forward pass leaves in the reserve space for the gradient: how far that has come, and
/// numbers of each unit at each step.
class RnnReserve {
 public:
  static constexpr double kForward = 1, kData = 2;  // which pass wrote it last

  RnnReserve(const cudnnRNNStruct& rnn, const cudnnRNNDataStruct& x, void* data = nullptr)
      : hidden_(rnn.hidden),
        batch_(x.batch),
        units_(x.steps * x.batch * rnn.hidden),
        data_(static_cast<double*>(data)) {}

  static constexpr int64_t kNumbers = 5;
  int64_t bytes() const { return 8 * (1 + units_ * kNumbers); }
  double& stage() const { return data_[0]; }
  double* of(int64_t step, int64_t sample, int64_t unit) const {
    return data_ + 1 + ((step * batch_ + sample) * hidden_ + unit) * kNumbers;
  }

 private:
  int64_t hidden_, batch_, units_;
  double* data_;
};

/// What a layer works in beside: more where it is trained.
inline int64_t rnn_workspace(const cudnnRNNDataStruct& x, cudnnForwardMode_t mode) {
  return (mode == CUDNN_FWD_MODE_TRAINING ? 512 : 256) + x.steps;
}

}  // namespace brim::fake
