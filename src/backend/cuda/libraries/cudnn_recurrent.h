// How cuDNN is told of a layer of an LSTM or GRU, and where it keeps the weights.
#pragma once

#include <cstddef>
#include <vector>

#include <brim/core/dtype.h>
#include <brim/core/stream.h>

#include "backend/cuda/libraries/cudnn_library.h"
#include "backend/options/recurrent_layer.h"

namespace brim::cuda::dnn {

/// Elements of a parameter that lie side by side in cuDNN's weight space, too.
struct WeightSegment {
  size_t parameter;        // of weight_ih, weight_hh, bias_ih, bias_hh
  size_t from, to, bytes;  // offsets in the parameter and in the weight space
};

struct RecurrentOperation {
  DropoutDesc no_dropout;
  RnnDesc rnn;
  RnnDataDesc x, y;
  TensorDesc state;  // of h, and of c
  std::vector<WeightSegment> segments;
  size_t weights = 0, inference = 0, training = 0, saved = 0;  // bytes; two of them of workspace
  bool possible = false;
};

/// Whether f32 is multiplied as TF32.
inline bool is_in_tf32(DType dtype, const backend::RecurrentLayer& l) {
  return dtype == DType::f32 && l.tf32;
}

/// Not `possible` where cuDNN does not support the layer. Throws DeviceError if it fails, or keeps
/// the weights in another way than its reference says, OutOfMemory without room for them.
RecurrentOperation describe_recurrent(cudnnHandle_t handle, Stream stream, DType dtype,
                                      const backend::RecurrentLayer& layer);

}  // namespace brim::cuda::dnn
