#include "deploy/engine/classes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <brim/ops/softmax.h>

#include "core/check.h"
#include "deploy/engine/lowering.h"
#include "rt/ops/choice.h"

namespace brim::deploy {
namespace {

int axis_of_classes(const Shape& scores) { return scores.rank() == 4 ? 1 : scores.rank() - 1; }

/// Sizes of indices: those of scores without the classes.
Shape rows_of(const Shape& scores) {
  Shape rows;
  for (int i = 0; i < scores.rank(); ++i)
    if (i != axis_of_classes(scores)) rows.push_back(scores[i]);
  return rows;
}

Shape top_of(const Shape& scores, int64_t k) {
  Shape shape = rows_of(scores);
  shape.push_back(k);
  return shape;
}

/// Scores with the classes as the last axis, and the largest of them all.
struct RowsOfScores {
  std::vector<float> values;
  size_t classes;
  double largest = 0;

  explicit RowsOfScores(const Tensor& scores)
      : values((scores.rank() == 4 ? scores.permute({0, 2, 3, 1}) : scores)
                   .contiguous()
                   .to_vector<float>()),
        classes(static_cast<size_t>(class_count(scores))) {
    for (const float v : values)
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(double{v}));
  }
  size_t rows() const { return values.size() / classes; }
  float at(size_t row, size_t of) const { return values[row * classes + of]; }
  /// The `count` largest of a row, as the runtime orders them.
  std::vector<size_t> order(size_t row, size_t count) const {
    const auto is_larger = [](float a, float b) {
      return a > b || (std::isnan(a) && !std::isnan(b));
    };
    const auto comes_first = [&](size_t a, size_t b) {
      if (is_larger(at(row, a), at(row, b))) return true;
      return !is_larger(at(row, b), at(row, a)) && a < b;
    };
    std::vector<size_t> all(classes);
    std::iota(all.begin(), all.end(), size_t{0});
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                      comes_first);
    all.resize(count);
    return all;
  }
};

/// Where the last axis of a step's input are the classes of a node's.
uint32_t scores_of(Lowering& to, const EngineNode& node) {
  const int id = node.inputs[0];
  return to.network.shape(node, 0).rank() == 4 ? to.nhwc(id) : to.plain(id);
}

void top(Lowering& to, const EngineNode& node) {
  const auto sizes = [&](size_t i) {
    return dims_of(to.network.values[static_cast<size_t>(node.outputs[i])].shape);
  };
  const uint32_t x = scores_of(to, node), values = to.made(sizes(0)),
                 indices = to.made(sizes(1), rt::DType::i32);
  to.step(rt::OpCode::top, {x}, std::vector<uint32_t>{values, indices});
  to.set_plain(node.outputs[0], values);
  to.set_plain(node.outputs[1], indices);
}

void argmax(Lowering& to, const EngineNode& node) {
  const uint32_t y = to.made(dims_of(to.network.values[static_cast<size_t>(node.outputs[0])].shape),
                             rt::DType::i32);
  to.step(rt::OpCode::argmax, {scores_of(to, node)}, y);
  to.set_plain(node.outputs[0], y);
}

const bool registered_choices =
    register_operator("Top", &top) && register_operator("Argmax", &argmax);

}  // namespace

int64_t class_count(const Tensor& scores) {
  return scores.rank() > 0 ? scores.size(axis_of_classes(scores.shape())) : 0;
}

void check_output(const EngineOptions& o, const Tensor& scores) {
  if (o.output == EngineOutput::scores) return;
  BRIM_CHECK(scores.rank() >= 2 && scores.dtype() == DType::f32, ValueError,
             "[engine] output 0 of the network, {} {}, is none of scores of classes, (N, C), "
             "(N, C, H, W) or (N, .., C)",
             name(scores.dtype()), scores.shape().str());
  const int64_t classes = class_count(scores);
  BRIM_CHECK(
      o.output != EngineOutput::top || (o.top >= 1 && o.top <= std::min(classes, rt::kMaxTop)),
      ValueError, "[engine] the likeliest {} of {} classes; they are 1 to {}", o.top, classes,
      std::min(classes, rt::kMaxTop));
}

void choose_classes(EngineNetwork& network, const EngineOptions& o) {
  if (o.output == EngineOutput::scores) return;
  const Shape scores = network.values[static_cast<size_t>(network.outputs[0])].shape;
  const auto add = [&](const char* op, int from, std::vector<EngineValue> made,
                       std::vector<Attribute> attributes = {}) {
    EngineNode node;
    node.op = op;
    node.inputs = {from};
    node.attributes = std::move(attributes);
    for (EngineValue& value : made) {
      node.outputs.push_back(static_cast<int>(network.values.size()));
      network.values.push_back(std::move(value));
    }
    network.nodes.push_back(node);
    return node.outputs;
  };
  std::vector<int> made = {network.outputs[0]};
  if (o.output != EngineOutput::classes)
    made = add("Softmax", made[0], {{scores, DType::f32, {}, nullptr}},
               {{"axis", int64_t{axis_of_classes(scores)}}});
  if (o.output == EngineOutput::classes)
    made = add("Argmax", made[0], {{rows_of(scores), DType::i32, {}, nullptr}});
  if (o.output == EngineOutput::top)
    made = add("Top", made[0],
               {{top_of(scores, o.top), DType::f32, {}, nullptr},
                {top_of(scores, o.top), DType::i32, {}, nullptr}});
  network.outputs.erase(network.outputs.begin());
  network.outputs.insert(network.outputs.begin(), made.begin(), made.end());
}

std::vector<std::string> output_names(const EngineOptions& o) {
  std::vector<std::string> names = o.outputs;
  if (o.output == EngineOutput::top && !names.empty()) names.insert(names.begin() + 1, "classes");
  return names;
}

std::vector<Tensor> chosen_classes(const Tensor& scores, const EngineOptions& o, double tolerance) {
  if (o.output == EngineOutput::scores) return {scores};
  const Tensor p = softmax(scores, axis_of_classes(scores.shape()));
  if (o.output == EngineOutput::softmax) return {p};
  const RowsOfScores rows(scores), probabilities(p);
  const size_t k = o.output == EngineOutput::top ? static_cast<size_t>(o.top) : 1;
  const double apart = 2 * tolerance * rows.largest;
  std::vector<float> values;
  std::vector<int32_t> indices;
  for (size_t row = 0; row < rows.rows(); ++row) {
    const std::vector<size_t> best = rows.order(row, std::min(k + 1, rows.classes));
    const auto is_close = [&](size_t i) {  // to the one before
      constexpr float kTiny = 1e-30F;      // probabilities below it may be 0 for some kernels
      if (i == 0 || i >= best.size()) return false;
      const bool is_apart =
          double{rows.at(row, best[i - 1])} - double{rows.at(row, best[i])} > apart &&
          probabilities.at(row, best[i - 1]) > probabilities.at(row, best[i]) &&
          probabilities.at(row, best[i - 1]) > kTiny;
      return !is_apart;
    };
    for (size_t i = 0; i < k; ++i) {
      values.push_back(probabilities.at(row, best[i]));
      indices.push_back(is_close(i) || is_close(i + 1) ? -1 : static_cast<int32_t>(best[i]));
    }
  }
  if (o.output == EngineOutput::classes)
    return {Tensor::from<int32_t>(indices, rows_of(scores.shape()))};
  const Shape shape = top_of(scores.shape(), o.top);
  return {Tensor::from<float>(values, shape), Tensor::from<int32_t>(indices, shape)};
}

double output_tolerance(const Tensor& scores, const EngineOptions& o, double tolerance) {
  constexpr double kMax = 0.5;
  if (o.output != EngineOutput::softmax && o.output != EngineOutput::top) return tolerance;
  // Scores that are off by d change a probability p by 2 d p (1 - p) at most.
  const double all = 2 * tolerance * RowsOfScores(scores).largest;
  return std::clamp(all, tolerance, std::max(tolerance, kMax));
}

}  // namespace brim::deploy
