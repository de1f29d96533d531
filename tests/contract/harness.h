// What the contract's harnesses share: making inputs, comparing results and gradients.
#pragma once

#include <string>

#include "contract/contract.h"

namespace brim::contract {

/// The devices that there are, one of each kind.
std::vector<Device> devices();
/// The numbers of `in`, dense on the CPU; other `seed`s give others.
Tensor make_input(const Input& in, DType dtype, size_t seed);
/// Elements differ by `tolerance * (1 + |want|)` at most; NaN equals NaN.
void expect_near(const Tensor& got, const Tensor& want, double tolerance, const std::string& what);
/// Which inputs gradients are taken of.
std::vector<size_t> differentiable(const std::vector<Input>& inputs);
/// Only what carries a gradient.
Tensors recorded(const Tensors& outputs);
/// Weights that turn outputs into one number; the same for every dtype and device.
Tensors cotangents(const Tensors& outputs);
/// The gradients of `outputs` weighted by `w`; zeros where an input has no influence.
Tensors gradients(const Tensors& outputs, const Tensors& x, const Tensors& w, bool create = false);

}  // namespace brim::contract
