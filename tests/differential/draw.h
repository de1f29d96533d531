// Drawn cases: an op with attributes and inputs, and what PyTorch computes from them. draws.py
// makes the files, README.md describes them.
#pragma once

#include <string>
#include <vector>

#include <brim/core/tensor.h>

#include "op_table/op_table.h"

namespace brim::differential {

using tests::Json;
using Tensors = std::vector<Tensor>;

/// An input's values, and how they lie in memory.
struct Input {
  Tensor values;
  std::string layout;
};

/// A result as it should be: |result - values| <= tolerance, element by element; NaN where NaN is.
struct Expected {
  std::string name;  ///< y0: an output, g0: a gradient of an input, h0: a second gradient
  DType dtype;
  Shape shape;
  std::vector<double> values, tolerance;  ///< no tolerance: exactly these
  std::vector<int64_t> whole;             ///< instead of `values` for i64, which no double holds
};

struct Draw {
  int64_t id = 0;
  std::string op;
  Json attrs;
  std::vector<Input> in;
  std::vector<size_t> leaves;   ///< inputs that are differentiated
  std::vector<size_t> sources;  ///< outputs that gradients begin at
  int order = 0;                ///< of the derivatives
  Tensors w, v;                 ///< weights of the sources, and of the gradients for the second
  std::vector<Expected> expected;
  bool refused = false;     ///< brim has to throw an Error
  bool free = false;        ///< brim may throw an Error
  bool reads_host = false;  ///< cannot be compiled
};

/// What is wrong with a result; `text` for people, the rest for draws.py.
struct Mismatch {
  int64_t id;
  std::string mode, what, text;
};

/// Ways to compute: "eager", "compiled" on the CPU; "sim" and "cuda" eagerly on such a device,
/// "sim_compiled" and "cuda_compiled". Those whose device is here. Throws DeviceError where
/// BRIM_BACKEND_PATH names a backend that gives no cuda device: its modes would go unnoticed.
std::vector<std::string> modes();

/// All draws of a file. Throws FileError or a JSON error.
std::vector<Draw> read_draws(const std::string& path);

/// Computes a draw and compares; empty when all is as expected, and where the mode is not for it.
std::vector<Mismatch> run(const Draw& draw, const std::string& mode);

}  // namespace brim::differential
