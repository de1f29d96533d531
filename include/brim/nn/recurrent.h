// Recurrent layers over sequences. Names and shapes of their parameters are PyTorch's.
#pragma once

#include <vector>

#include <brim/nn/module.h>

namespace brim::nn {

/// Options of LSTM and GRU.
struct RecurrentOptions {
  int64_t in = 0;              ///< features of a step of x; 0: inferred at the first call
  int64_t hidden = 0;          ///< features of a hidden state
  int64_t layers = 1;          ///< one behind the other
  bool bias = true;            ///< false: nothing is added
  bool batch_first = false;    ///< sequences are (N, T, ..) instead of (T, N, ..)
  double dropout = 0;          ///< in training, of what each layer but the last gives the next
  bool bidirectional = false;  ///< a second way, from the end; results are beside each other
  DType dtype = DType::f32;    ///< of the parameters
  Device device = default_device();  ///< of the parameters
};

/// What LSTM and GRU share. For layer k: weight_ih_lk (G hidden, in; behind the first layer D
/// hidden), weight_hh_lk (G hidden, hidden), bias_ih_lk and bias_hh_lk (G hidden), G gates; the
/// same with _reverse for the way back, where D, the number of directions, is 2. All begin uniform
/// in +-1 / sqrt(hidden). Without `in`, the last size of x is it at the first call, which makes all
/// of them (Module::initialize()).
class Recurrent : public Module {
 public:
  using Options = RecurrentOptions;  ///< of the constructor
  /// x: (T, N, in) -> the last layer's hidden states (T, N, D hidden), begun with zeros.
  Tensor forward(const Tensor& x) override;

  const Options& options = options_;  ///< `in` is what was inferred, after the first call

 protected:
  /// `gates`: rows of a weight for each hidden feature; `states`: how many a cell has.
  Recurrent(const char* kind, int64_t gates, size_t states, const Options& options);
  std::string options_str() const override;

  /// The parameters of one layer in one direction.
  struct Cell {
    Tensor &weight_ih, &weight_hh, &bias_ih, &bias_hh;  ///< views of the parameters
  };
  /// All steps of a cell over x, (T, N, ..), from the states before them, (N, hidden) each, the
  /// hidden one first. Gives the hidden states after each step, (T, N, hidden), and behind them all
  /// states after the last one, (N, hidden) each.
  virtual std::vector<Tensor> steps(const Cell& cell, const Tensor& x,
                                    const std::vector<Tensor>& states, bool reverse) const = 0;
  /// Runs all layers over x. states: (layers D, N, hidden) each, replaced by those after the last
  /// step; undefined ones begin with zeros. Throws ShapeError, DTypeError, DeviceError.
  Tensor run(const Tensor& x, std::vector<Tensor>& states);

 private:
  /// The hidden states; `states` become those after the last step.
  Tensor run_cell(const Cell& cell, const Tensor& x, bool reverse,
                  std::vector<Tensor>& states) const;
  void fill_cells(const Options& o);

  Options options_;
  int64_t gates_;
  size_t states_;
  std::vector<Cell> cells_;  // layer by layer, forwards before backwards
};

/// Long short-term memory (Hochreiter and Schmidhuber 1997), with a forget gate:
/// i, f, g, o = W_ih x + b_ih + W_hh h + b_hh; c' = sigmoid(f) c + sigmoid(i) tanh(g);
/// h' = sigmoid(o) tanh(c').
class LSTM : public Recurrent {
 public:
  /// What goes from step to step.
  struct State {
    Tensor h = {}, c = {};  ///< (layers D, N, hidden); undefined: zeros
  };
  /// What forward() gives.
  struct Result {
    Tensor y;     ///< (T, N, D hidden)
    State state;  ///< after the last step
  };
  explicit LSTM(Options options);  ///< Throws ValueError for options out of range
  using Recurrent::forward;
  /// x: (T, N, in) -> (T, N, D hidden), from `state` on. Throws ShapeError.
  Result forward(const Tensor& x, const State& state);
  using Module::operator();
  /// Calls forward().
  Result operator()(const Tensor& x, const State& state) { return forward(x, state); }

 protected:
  std::vector<Tensor> steps(const Cell& cell, const Tensor& x, const std::vector<Tensor>& states,
                            bool reverse) const override;
};

/// Gated recurrent units (Cho et al. 2014), PyTorch's form: r, z = sigmoid(W_ih x + b_ih + W_hh h +
/// b_hh); n = tanh(W_in x + b_in + r (W_hn h + b_hn)); h' = (1 - z) n + z h.
class GRU : public Recurrent {
 public:
  /// What forward() gives.
  struct Result {
    Tensor y;  ///< (T, N, D hidden)
    Tensor h;  ///< (layers D, N, hidden)
  };
  explicit GRU(Options options);  ///< Throws ValueError for options out of range
  using Recurrent::forward;
  /// x: (T, N, in) -> (T, N, D hidden), from h on. Throws ShapeError.
  Result forward(const Tensor& x, const Tensor& h);
  using Module::operator();
  /// Calls forward().
  Result operator()(const Tensor& x, const Tensor& h) { return forward(x, h); }

 protected:
  std::vector<Tensor> steps(const Cell& cell, const Tensor& x, const std::vector<Tensor>& states,
                            bool reverse) const override;
};

}  // namespace brim::nn
