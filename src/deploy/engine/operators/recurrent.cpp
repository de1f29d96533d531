// LSTM and GRU: what the input gives the gates is a product for all steps, then each step of time
// is some steps of the engine. Gates are values of their own, of which each step of time begins
// where a value can, so that the engine's steps read and write parts of them where they lie.
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
        time_(rounded_up(n_ * hidden_)),
        is_reverse_(node.attribute<std::string>("direction", "forward") == "reverse") {
    BRIM_CHECK(times <= kMaxTimes, NotImplemented, "sequences of more than {} steps", kMaxTimes);
    for (const size_t weights : {size_t{1}, size_t{2}, size_t{3}})
      BRIM_CHECK(to.network.is_constant(node, weights), NotImplemented,
                 "weights that are computed");
    BRIM_CHECK(!node.has(4), NotImplemented, "sequences of lengths of their own");
    x_ = to.view(to.plain(node.inputs[0]), {1, 1, times * n_, inputs_});
    all_ = to.made({times, time_});
    gates_ = lowering.network.shape(node, 1)[1] / hidden_;
    for (int64_t gate = 0; gate < gates_; ++gate)
      matrices_.push_back(matrix(part_of(2, gate, hidden_), hidden_));
    no_bias_ = numbers(std::vector<float>(static_cast<size_t>(rounded_up(hidden_))));
  }

  /// Of all steps of time: the input's part of a gate.
  uint32_t from_input(int64_t gate, bool with_recurrent_bias) {
    std::vector<float> bias = part_of(3, gate, 1);
    const std::vector<float> more = part_of(3, gate + gates_, 1);
    for (size_t i = 0; i < bias.size() && with_recurrent_bias; ++i) bias[i] += more[i];
    const uint32_t y =
        product(x_, matrix(part_of(1, gate, inputs_), inputs_), bias_of(std::move(bias)), {});
    if (time_ == n_ * hidden_) return y;
    const uint32_t apart = to.made({times, time_});
    copy(y, n_ * hidden_, apart, time_, times);
    return apart;
  }
  /// h times a gate's matrix, and what is added.
  uint32_t from_state(int64_t gate, uint32_t h, uint32_t added) {
    return product(h, matrices_[static_cast<size_t>(gate)], no_bias_, added);
  }
  /// The recurrent bias of a gate, for what comes from the state alone.
  uint32_t recurrent_bias(int64_t gate) { return bias_of(part_of(3, gate + gates_, 1)); }
  uint32_t from_state_alone(int64_t gate, uint32_t h, uint32_t bias) {
    return product(h, matrices_[static_cast<size_t>(gate)], bias, {});
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
    const std::vector<int64_t> dims = {1, 1, n_, hidden_};
    if (!node_.has(input)) return to.constant(zeros({1, 1, n_, hidden_}), dims);
    return to.view(to.plain(node_.inputs[input]), dims);
  }
  /// Step number i of what is computed, of a value of all steps of time.
  uint32_t at(uint32_t all, int64_t i) {
    const int64_t time = is_reverse_ ? times - 1 - i : i;
    return to.part(all, time * time_, {1, 1, n_, hidden_});
  }
  uint32_t output(int64_t i) { return at(all_, i); }
  /// Output number `number` of the node: all steps of time, or a state.
  void finish_all() { finish(0, all_, times); }
  void finish(size_t number, uint32_t state) { finish(number, state, 1); }

  Lowering& to;

 private:
  /// Numbers of whole vectors.
  static int64_t rounded_up(int64_t count) { return rt::panels_of(count) * rt::kPanel; }

  void finish(size_t number, uint32_t from, int64_t count) {
    if (number >= node_.outputs.size() || node_.outputs[number] < 0) return;
    const int id = node_.outputs[number];
    const uint32_t y = to.made(dims_of(to.network.values[static_cast<size_t>(id)].shape));
    copy(from, time_, y, n_ * hidden_, count);
    to.set_plain(id, y);
  }

  /// Rows of a gate out of an operand of rows of `columns` numbers.
  std::vector<float> part_of(size_t input, int64_t gate, int64_t columns) const {
    const std::vector<float> all =
        to.network.constant(node_, input).contiguous().to_vector<float>();
    const auto first = all.begin() + gate * hidden_ * columns;
    return {first, first + hidden_ * columns};
  }
  uint32_t numbers(const std::vector<float>& all) {
    const auto count = static_cast<int64_t>(all.size());
    return to.constant(Tensor::from<float>(all, {count}), {count});
  }
  uint32_t matrix(const std::vector<float>& rows, int64_t columns) {
    return numbers(panels_of_weights(rows, 1, hidden_, columns, 1));
  }
  uint32_t bias_of(std::vector<float> units) {
    units.resize(static_cast<size_t>(rounded_up(hidden_)));
    return numbers(units);
  }
  uint32_t product(uint32_t x, uint32_t weights, uint32_t bias, std::optional<uint32_t> added) {
    std::vector<uint32_t> operands = {x, weights, bias};
    if (added) operands.push_back(*added);
    const uint32_t y = to.made({1, 1, to.value(x).dims[2], hidden_});
    to.step(rt::OpCode::convolution, std::move(operands), y, rt::ConvolutionAttributes{});
    return y;
  }
  /// So many steps of time, which begin so far apart.
  void copy(uint32_t x, int64_t time_x, uint32_t y, int64_t time_y, int64_t count) {
    rt::CopyAttributes a{};
    std::fill_n(a.sizes, rt::kMaxRank, 1);
    constexpr int kTimes = rt::kMaxRank - 2, kNumbers = rt::kMaxRank - 1;
    a.sizes[kTimes] = count;
    a.sizes[kNumbers] = n_ * hidden_;
    a.strides_x[kTimes] = time_x;
    a.strides_y[kTimes] = time_y;
    a.strides_x[kNumbers] = a.strides_y[kNumbers] = 1;
    to.step(rt::OpCode::copy, {x}, y, a);
  }

  const EngineNode& node_;
  const int64_t hidden_, inputs_;

 public:
  const int64_t times;

 private:
  const int64_t n_, time_;  ///< samples; numbers from a step of time to the next
  const bool is_reverse_;
  int64_t gates_ = 0;
  std::vector<uint32_t> matrices_;  ///< of the gates, for the state
  uint32_t x_ = 0, all_ = 0, no_bias_ = 0;
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
  const uint32_t bias = layer.recurrent_bias(2);
  uint32_t h = layer.first_state(5);
  for (int64_t i = 0; i < layer.times; ++i) {
    uint32_t gates[2];
    for (int gate = 0; gate < 2; ++gate)
      gates[gate] = layer.unary(UnaryFormula::sigmoid,
                                layer.from_state(gate, h, layer.at(from_input[gate], i)));
    const uint32_t reset =
        layer.binary(BinaryFormula::mul, gates[1], layer.from_state_alone(2, h, bias));
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
