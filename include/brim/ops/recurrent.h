// The steps of recurrent layers, for one layer and direction. What the input gives the gates is a
// linear() over all steps before them; nn::LSTM and nn::GRU are made of both.
#pragma once

#include <vector>

#include <brim/core/tensor.h>

namespace brim {

/// What lstm() and gru() give.
struct RecurrentSteps {
  bool reverse = false;  ///< from the last step to the first
};

/// Long short-term memory (Hochreiter and Schmidhuber 1997), with a forget gate, at each step t:
/// i, f, g, o = gates[t] + W_hh h; c = sigmoid(f) c + sigmoid(i) tanh(g); h = sigmoid(o) tanh(c).
/// gates: (T, N, 4 H), weight_hh: (4 H, H), h and c before the first step: (N, H) -> {h, c} after
/// each step, (T, N, H) both. 16-bit floats are summed, and passed from step to step, in f32 where
/// the device has a kernel for all steps, as CPUs have. Throws ShapeError, also for T = 0,
/// DTypeError, DeviceError. Gradients of any order.
std::vector<Tensor> lstm(const Tensor& gates, const Tensor& weight_hh, const Tensor& h,
                         const Tensor& c, const RecurrentSteps& options = {});

/// Gated recurrent units (Cho et al. 2014), PyTorch's form, at each step t: with u = W_hh h + b_hh
/// and r, z, n of both, r, z = sigmoid(gates[t] + u); n = tanh(gates_n[t] + r u_n);
/// h = (1 - z) n + z h. gates: (T, N, 3 H), weight_hh: (3 H, H), bias_hh: (3 H) or undefined, h
/// before the first step: (N, H) -> h after each step, (T, N, H). The rest is as for lstm.
Tensor gru(const Tensor& gates, const Tensor& weight_hh, const Tensor& bias_hh, const Tensor& h,
           const RecurrentSteps& options = {});

}  // namespace brim
