#include "deploy/onnx/translation.h"

#include <map>

#include <brim/ops/create.h>

namespace brim::deploy {
namespace {

struct Row {
  const char* operators;
  Translation translation;
};

std::map<std::string, Row, std::less<>>& translations() {
  static std::map<std::string, Row, std::less<>> all;
  return all;
}

Extent extent_of(int64_t first, int64_t second, std::pair<int64_t, int64_t> batches) {
  if (first == second) return first;
  const int64_t apart = batches.second - batches.first;
  BRIM_CHECK(apart != 0 && (second - first) % apart == 0, deploy::DependsOnBatch,
             "a size depends on the batch in another way than times a number");
  const int64_t per_sample = (second - first) / apart;
  return {first - per_sample * batches.first, per_sample};
}

}  // namespace

bool register_translation(const char* kernel, const char* operators, Translation translation) {
  translations().insert_or_assign(kernel, Row{operators, translation});
  return true;
}

Translation find_translation(std::string_view kernel) {
  const auto found = translations().find(kernel);
  return found == translations().end() ? nullptr : found->second.translation;
}

std::vector<OnnxKernel> onnx_kernels() {
  std::vector<OnnxKernel> all;
  for (const auto& [kernel, row] : translations()) all.push_back({kernel, row.operators});
  return all;
}

Window window_of(const Tensor& first, const Tensor& second, std::pair<int64_t, int64_t> batches) {
  BRIM_CHECK(first.rank() == second.rank() && first.dtype() == second.dtype(),
             deploy::DependsOnBatch, "it depends on the batch");
  Window w{.storage = first.storage().get(),
           .shape = {},
           .strides = {},
           .offset = extent_of(first.offset(), second.offset(), batches),
           .dtype = first.dtype()};
  for (int i = 0; i < first.rank(); ++i) {
    w.shape.push_back(extent_of(first.shape()[i], second.shape()[i], batches));
    w.strides.push_back(extent_of(first.strides()[i], second.strides()[i], batches));
  }
  return w;
}

Window Translated::window(std::string_view operand) const {
  return window_of(first_.operand(operand), second_.operand(operand), shared_.batches);
}

Value Translated::in_rows(std::string_view operand) {
  const Window w = window(operand);
  const std::optional<Value> all = shared_.memory.whole(w);
  return all && !all->shape.empty() && all->shape.back() == w.shape.back() ? *all
                                                                           : shared_.memory.read(w);
}

Value Translated::filled(double value, const Extents& shape, DType dtype) {
  Shape sizes;
  for (const Extent& size : shape) sizes.push_back(size.fixed);
  return graph.initializer("constant", full(sizes, value, {.dtype = dtype}));
}

void Translated::out(std::string_view operand, const Value& value) {
  const Window w = window(operand);
  shared_.products.erase(w.storage);
  shared_.memory.write(w, graph.reshape(value, w.shape));
}

void Translated::out_step(std::string_view operand, int64_t index, const Value& value) {
  Window w = window(operand);
  const std::optional<Extent> steps = product(w.strides[0], index);
  w.offset = w.offset + *steps;
  w.shape.erase(w.shape.begin());
  w.strides.erase(w.strides.begin());
  shared_.memory.write(w, graph.reshape(value, w.shape));
}

Translated::Product Translated::product_of(std::string_view operand) const {
  const auto found = shared_.products.find(window(operand).storage);
  return found == shared_.products.end() ? Product() : found->second;
}

void Translated::keep_product(std::string_view operand, const Product& made) {
  shared_.products.insert_or_assign(window(operand).storage, made);
}

void Translated::out_rows(std::string_view operand, const Value& value) {
  Window w = window(operand);
  shared_.products.erase(w.storage);
  w.shape = value.shape;
  w.strides.assign(value.shape.size(), 0);
  std::optional<Extent> step = Extent(1);
  for (size_t i = value.shape.size(); i-- > 0;) {
    w.strides[i] = *step;
    step = product(*step, value.shape[i]);
    if (!step) return out(operand, value);
  }
  shared_.memory.write(w, value);
}

}  // namespace brim::deploy
