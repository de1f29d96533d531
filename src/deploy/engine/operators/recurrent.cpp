// LSTM and GRU: what the input gives the gates is a product for all steps, then each step of time
// is some steps of the engine. Gates are values of their own, of hidden units in whole vectors, so
// that a step reads and writes parts of longer values where they lie: units that are none stay 0.
#include <algorithm>

#include <brim/ops/create.h>

#include "deploy/engine/lowering.h"
#include "deploy/engine/weight_layout.h"
#include "rt/kernels/convolution.h"

namespace brim::deploy {
namespace {

using rt::BinaryFormula;
using rt::UnaryFormula;

constexpr int64_t kMaxTimes = 1024;  // more would be a file of records

/// What both layers share. ONNX's operands: X (times, n, inputs), W (1, gates, inputs), R (1,
/// gates, hidden), B (1, 2 gates), initial states (1, n, hidden).
class Recurrent {
 public:
  Recurrent(Lowering& lowering, const EngineNode& node)
      : to(lowering),
        node_(node),
        hidden_(node.attribute<int64_t>("hidden_size", 0)),
        inputs_(lowering.network.shape(node, 0)[2]),
        times(lowering.network.shape(node, 0)[0]),
        n_(lowering.network.shape(node, 0)[1]),
        padded_(rt::panels_of(hidden_) * rt::kPanel),
        is_reverse_(node.attribute<std::string>("direction", "forward") == "reverse") {
    BRIM_CHECK(times <= kMaxTimes, NotImplemented, "sequences of more than {} steps", kMaxTimes);
    for (const size_t weights : {size_t{1}, size_t{2}, size_t{3}})
      BRIM_CHECK(to.network.is_constant(node, weights), NotImplemented,
                 "weights that are computed");
    BRIM_CHECK(!node.has(4), NotImplemented, "sequences of lengths of their own");
    x_ = to.view(to.plain(node.inputs[0]), {1, 1, times * n_, inputs_});
    all_ = to.made({times, 1, n_, padded_});
  }

  /// Of all steps of time: the input's part of a gate.
  uint32_t from_input(int64_t gate, bool with_recurrent_bias) {
    std::vector<float> bias = part_of(3, gate, 1);
    const std::vector<float> more = part_of(3, gate + gates(), 1);
    for (size_t i = 0; i < bias.size() && with_recurrent_bias; ++i) bias[i] += more[i];
    return product(x_, part_of(1, gate, inputs_), inputs_, bias, {});
  }
  /// h times a gate's matrix, and what is added.
  uint32_t from_state(int64_t gate, uint32_t h, std::optional<uint32_t> added) {
    std::vector<float> weights(static_cast<size_t>(padded_ * padded_), 0.0F);
    const std::vector<float> rows = part_of(2, gate, hidden_);
    for (int64_t r = 0; r < padded_; ++r)
      std::copy_n(rows.begin() + r * hidden_, hidden_, weights.begin() + r * padded_);
    const std::vector<float> bias =
        added ? std::vector<float>(static_cast<size_t>(padded_)) : part_of(3, gate + gates(), 1);
    return product(h, weights, padded_, bias, added);
  }
  uint32_t unary(UnaryFormula formula, uint32_t x) {
    const uint32_t y = to.made(to.value(x).dims);
    to.step(rt::OpCode::unary, {x}, y, rt::UnaryAttributes{formula, 0, 0});
    return y;
  }
  uint32_t binary(BinaryFormula formula, uint32_t a, uint32_t b) {
    return binary(formula, a, b, to.made(to.value(a).dims));
  }
  uint32_t binary(BinaryFormula formula, uint32_t a, uint32_t b, uint32_t y) {
    to.step(rt::OpCode::binary, {a, b}, y, rt::BinaryAttributes{formula});
    return y;
  }

  /// The state that the first step reads, input number `input` of the node, or zeros.
  uint32_t first_state(size_t input) {
    const std::vector<int64_t> dims = {1, 1, n_, padded_};
    const uint32_t zeros_of_all = to.constant(zeros({1, 1, n_, padded_}), dims);
    if (!node_.has(input)) return zeros_of_all;
    const uint32_t given = to.view(to.plain(node_.inputs[input]), {1, 1, n_, hidden_});
    if (hidden_ == padded_) return given;
    const uint32_t state = to.made(dims);
    copy(zeros_of_all, padded_, state, padded_, n_, padded_);
    copy(given, hidden_, state, padded_, n_, hidden_);
    return state;
  }
  /// Step number i of what is computed, of a value of all steps of time.
  uint32_t at(uint32_t all, int64_t i) {
    const int64_t time = is_reverse_ ? times - 1 - i : i;
    return to.part(all, time * n_ * padded_, {1, 1, n_, padded_});
  }
  uint32_t output(int64_t i) { return at(all_, i); }
  /// Output number `number` of the node, whose rows are the units that there are.
  void finish(size_t number, uint32_t from) {
    if (number >= node_.outputs.size() || node_.outputs[number] < 0) return;
    const int id = node_.outputs[number];
    const std::vector<int64_t> dims = dims_of(to.network.values[static_cast<size_t>(id)].shape);
    const uint32_t y = to.made(dims);
    copy(from, padded_, y, hidden_,
         to.network.values[static_cast<size_t>(id)].shape.numel() / hidden_, hidden_);
    to.set_plain(id, y);
  }
  void finish_all() { finish(0, all_); }

  Lowering& to;

 private:
  int64_t gates() const { return to.network.shape(node_, 1)[1] / hidden_; }

  /// Rows of a gate out of an operand of rows of `columns` numbers, and zeros.
  std::vector<float> part_of(size_t input, int64_t gate, int64_t columns) const {
    const std::vector<float> all =
        to.network.constant(node_, input).contiguous().to_vector<float>();
    std::vector<float> rows(static_cast<size_t>(padded_ * columns), 0.0F);
    std::copy_n(all.begin() + gate * hidden_ * columns, hidden_ * columns, rows.begin());
    return rows;
  }
  uint32_t numbers(const std::vector<float>& all) {
    const auto count = static_cast<int64_t>(all.size());
    return to.constant(Tensor::from<float>(all, {count}), {count});
  }
  uint32_t product(uint32_t x, const std::vector<float>& weights, int64_t inputs,
                   const std::vector<float>& bias, std::optional<uint32_t> added) {
    std::vector<uint32_t> operands = {x, numbers(panels_of_weights(weights, 1, padded_, inputs, 1)),
                                      numbers(bias)};
    if (added) operands.push_back(*added);
    const uint32_t y = to.made({1, 1, to.value(x).dims[2], padded_});
    to.step(rt::OpCode::convolution, std::move(operands), y, rt::ConvolutionAttributes{});
    return y;
  }
  void copy(uint32_t x, int64_t row_x, uint32_t y, int64_t row_y, int64_t rows, int64_t columns) {
    rt::CopyAttributes a{};
    std::fill_n(a.sizes, rt::kMaxRank, 1);
    constexpr int kRows = rt::kMaxRank - 2, kColumns = rt::kMaxRank - 1;
    a.sizes[kRows] = rows;
    a.sizes[kColumns] = columns;
    a.strides_x[kRows] = row_x;
    a.strides_y[kRows] = row_y;
    a.strides_x[kColumns] = a.strides_y[kColumns] = 1;
    to.step(rt::OpCode::copy, {x}, y, a);
  }

  const EngineNode& node_;
  const int64_t hidden_, inputs_;

 public:
  const int64_t times;

 private:
  const int64_t n_, padded_;  ///< samples; units with those that fill the last panel
  const bool is_reverse_;
  uint32_t x_ = 0, all_ = 0;
};

/// Gates i, o, f, and what the cells get.
void lstm(Lowering& to, const EngineNode& node) {
  Recurrent layer(to, node);
  uint32_t from_input[4];
  for (int gate = 0; gate < 4; ++gate) from_input[gate] = layer.from_input(gate, true);
  uint32_t h = layer.first_state(5), c = layer.first_state(6);
  for (int64_t i = 0; i < layer.times; ++i) {
    uint32_t gates[4];
    for (int gate = 0; gate < 4; ++gate)
      gates[gate] = layer.unary(gate == 3 ? UnaryFormula::tanh : UnaryFormula::sigmoid,
                                layer.from_state(gate, h, layer.at(from_input[gate], i)));
    c = layer.binary(BinaryFormula::add, layer.binary(BinaryFormula::mul, gates[2], c),
                     layer.binary(BinaryFormula::mul, gates[0], gates[3]));
    h = layer.binary(BinaryFormula::mul, gates[1], layer.unary(UnaryFormula::tanh, c),
                     layer.output(i));
  }
  layer.finish_all();
  layer.finish(1, h);
  layer.finish(2, c);
}

/// Gates z, r, and the new state, whose part of the old one is reset behind its product.
void gru(Lowering& to, const EngineNode& node) {
  BRIM_CHECK(node.attribute<int64_t>("linear_before_reset", 0) == 1, NotImplemented,
             "states that are reset before their product");
  Recurrent layer(to, node);
  uint32_t from_input[3];
  for (int gate = 0; gate < 3; ++gate) from_input[gate] = layer.from_input(gate, gate < 2);
  uint32_t h = layer.first_state(5);
  for (int64_t i = 0; i < layer.times; ++i) {
    uint32_t gates[2];
    for (int gate = 0; gate < 2; ++gate)
      gates[gate] = layer.unary(UnaryFormula::sigmoid,
                                layer.from_state(gate, h, layer.at(from_input[gate], i)));
    const uint32_t reset = layer.binary(BinaryFormula::mul, gates[1], layer.from_state(2, h, {}));
    const uint32_t fresh = layer.unary(
        UnaryFormula::tanh, layer.binary(BinaryFormula::add, reset, layer.at(from_input[2], i)));
    const uint32_t kept =
        layer.binary(BinaryFormula::mul, gates[0], layer.binary(BinaryFormula::sub, h, fresh));
    h = layer.binary(BinaryFormula::add, fresh, kept, layer.output(i));
  }
  layer.finish_all();
  layer.finish(1, h);
}

const bool registered_recurrent =
    register_operator("LSTM", &lstm) && register_operator("GRU", &gru);

}  // namespace
}  // namespace brim::deploy
