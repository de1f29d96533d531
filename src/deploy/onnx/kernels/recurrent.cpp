// LSTM and GRU. Their kernels get what the input gives the gates, which the operators of ONNX
// multiply themselves: they get the operands of the product, which nothing then needs any more.
#include <brim/ops/create.h>

#include "deploy/onnx/translation.h"

namespace brim::deploy {
namespace {

/// Rows of gates in the order of ONNX.
Value reordered(OnnxGraph& graph, const Value& x, const std::vector<int64_t>& gates,
                int64_t hidden) {
  std::vector<int64_t> rows;
  for (const int64_t gate : gates)
    for (int64_t i = 0; i < hidden; ++i) rows.push_back(gate * hidden + i);
  return graph.add("Gather", {x, graph.integers(rows)}, {x.shape, x.dtype}, {{"axis", int64_t{0}}});
}

/// With an axis of one direction in front.
Value with_direction(OnnxGraph& graph, const Value& x) {
  Extents shape = x.shape;
  shape.insert(shape.begin(), 1);
  return graph.reshape(x, shape);
}

/// What the operators share, in their order: X, W, R, B, sequence_lens, initial_h.
std::vector<Value> recurrent_inputs(Translated& t, const std::vector<int64_t>& order) {
  const Extents gates = t.shape("gates");
  const int64_t hidden = t.shape("weight")[1].fixed, rows = t.shape("weight")[0].fixed;
  const DType dtype = t.dtype("gates");
  OnnxGraph& graph = t.graph;
  const Value none = t.filled(0, rows, dtype);
  Translated::Product from = t.product_of("gates");
  if (from.weight.name.empty())
    from = {.x = t.in("gates"),
            .weight = graph.initializer("identity", eye(rows, rows, {.dtype = dtype})),
            .bias = {}};
  else
    from.x = graph.reshape(from.x, {gates[0], gates[1], from.weight.shape[1]});
  const auto in_order = [&](const Value& x) { return reordered(graph, x, order, hidden); };
  const Value input_bias = from.bias.name.empty() ? none : in_order(from.bias);
  const bool has_bias = t.kernel() == "gru" && t.has("bias");
  const Value bias = graph.add("Concat", {input_bias, has_bias ? in_order(t.in("bias")) : none},
                               {{2 * rows}, dtype}, {{"axis", int64_t{0}}});
  return {from.x,
          with_direction(graph, in_order(from.weight)),
          with_direction(graph, in_order(t.in("weight"))),
          with_direction(graph, bias),
          {},
          with_direction(graph, t.in("h"))};
}

std::vector<Attribute> recurrent_attributes(const Translated& t) {
  return {{"hidden_size", t.shape("weight")[1].fixed},
          {"direction", std::string(t.option<bool>() ? "reverse" : "forward")}};
}

/// (T, 1, N, H), and the state (1, N, H) that the last step leaves.
std::vector<Output> recurrent_outputs(const Translated& t, size_t states) {
  const Extents y = t.shape("y");
  std::vector<Output> all = {{{y[0], 1, y[1], y[2]}, t.dtype("y")}};
  for (size_t i = 0; i < states; ++i) all.push_back({{1, y[1], y[2]}, t.dtype("y")});
  return all;
}

void lstm(Translated& t) {
  std::vector<Value> inputs = recurrent_inputs(t, {0, 3, 1, 2});  // i, f, g, o as i, o, f, g
  inputs.push_back(with_direction(t.graph, t.in("c")));
  const std::vector<Value> made =
      t.graph.add_many("LSTM", inputs, recurrent_outputs(t, 2), recurrent_attributes(t));
  t.out("y", made[0]);
  t.out_step("cells", t.option<bool>() ? 0 : t.shape("y")[0].fixed - 1, made[2]);
}

void gru(Translated& t) {
  std::vector<Attribute> attributes = recurrent_attributes(t);
  attributes.push_back({"linear_before_reset", int64_t{1}});
  const std::vector<Value> made =
      t.graph.add_many("GRU", recurrent_inputs(t, {1, 0, 2}),  // r, z, n as z, r, n
                       recurrent_outputs(t, 0), std::move(attributes));
  t.out("y", made[0]);
}

const bool registered_recurrent =
    register_translation("lstm", "LSTM; of the cells those of the last step", &lstm) &&
    register_translation("gru", "GRU", &gru);

}  // namespace
}  // namespace brim::deploy
