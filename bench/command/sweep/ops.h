// What `brim bench sweep` times: the public ops that compute. bench/compare/sweep/ has the same in
// PyTorch, file by file, under the same names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <brim/core/tensor.h>

namespace brim::command {

/// What an op is to work on.
struct SweepCase {
  std::string layout;  ///< one of the op's
  DType dtype = DType::f32;
  int64_t elements = 0;  ///< about so many in the largest operand, or in a product's result
};

/// A case with its operands, ready to run.
struct SweepRun {
  std::function<void()> step;
  /// Of one step; of a training step the output and the gradients.
  std::function<std::vector<Tensor>()> results;
};

struct SweepOp {
  std::string name, family;
  std::vector<std::string> layouts;  ///< the usual one first
  std::vector<DType> dtypes;         ///< the usual one first
  std::function<SweepRun(const SweepCase&)> make;
};

/// All, family by family.
std::vector<SweepOp> sweep_ops();

std::vector<SweepOp> sweep_elementwise();  ///< elementwise.cpp
std::vector<SweepOp> sweep_rows();         ///< rows.cpp: reductions, softmax, normalisation
std::vector<SweepOp> sweep_products();     ///< products.cpp: with convolution, attention, pooling
std::vector<SweepOp> sweep_moves();        ///< moves.cpp: copies, indices, order
std::vector<SweepOp> sweep_training();     ///< training.cpp: losses, random numbers, optimizers

}  // namespace brim::command
