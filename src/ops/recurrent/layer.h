// A layer of an LSTM or GRU in one direction, with its input's weights: what nn::LSTM and nn::GRU
// are made of. Where a device computes whole layers that is one kernel each way, else linear() and
// lstm() or gru().
#pragma once

#include <vector>

#include <brim/core/tensor.h>

#include "backend/options/recurrent_layer.h"

namespace brim::ops {

/// G gates of H units: weight_ih (G H, in), weight_hh (G H, H), both biases (G H) or undefined.
struct LayerWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
};

/// All steps over x (T, N, in) from the states before them, (N, H) each: {h}, of an LSTM {h, c} ->
/// y (T, N, H) and the states after the last step, which is the first in x where it is reversed.
/// Throws ShapeError, DTypeError, DeviceError. Gradients of any order.
std::vector<Tensor> recurrent_layer(backend::RecurrentCell cell, const Tensor& x,
                                    const LayerWeights& weights, const std::vector<Tensor>& states,
                                    bool reverse);

}  // namespace brim::ops
