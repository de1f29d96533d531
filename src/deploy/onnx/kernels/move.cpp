// Kernels that make or move elements and compute nothing.
#include <brim/formula/formula.h>
#include <brim/ops/create.h>

#include "backend/options/index_options.h"
#include "backend/options/pieces.h"
#include "deploy/onnx/translation.h"

namespace brim::deploy {
namespace {

void copy(Translated& t) { t.out("y", t.graph.cast(t.in("x"), t.dtype("y"))); }

void fill(Translated& t) {
  const Output y = t.like("y");
  t.out("y", t.graph.add("ConstantOfShape", {t.graph.shape_of(y.shape)}, y,
                         {{"value", full({1}, t.option<double>(), {.dtype = y.dtype})}}));
}

void arange(Translated& t) {
  const auto& p = t.option<formula::Params>();
  const Extents shape = t.shape("y");
  BRIM_CHECK(shape[0].is_fixed(), deploy::DependsOnBatch, "a range as long as the batch");
  std::vector<double> values;
  for (int64_t i = 0; i < shape[0].fixed; ++i) values.push_back(p.a + static_cast<double>(i) * p.b);
  t.out("y", t.graph.initializer("range",
                                 Tensor::from<double>(values, {shape[0].fixed}).to(t.dtype("y"))));
}

void triangle(Translated& t) {
  t.out("y", t.graph.add(
                 "Trilu",
                 {t.in("x"), t.graph.scalar(static_cast<double>(t.option<int64_t>()), DType::i64)},
                 t.like("y"), {{"upper", int64_t{t.option<bool>()}}}));
}

/// A border of copies.
void copy_pieces(Translated& t) {
  const auto [pieces, others] = t.both<backend::Pieces>();
  std::vector<int64_t> before, after;
  std::optional<int64_t> step;
  for (size_t axis = 0; axis < t.rank("x"); ++axis) {
    const auto& [first, inside, last] = pieces.axes[axis];
    BRIM_CHECK(others.axes[axis][0].size == first.size && others.axes[axis][2].size == last.size,
               deploy::DependsOnBatch, "a border depends on the batch");
    before.push_back(first.size);
    after.push_back(last.size);
    for (const backend::Piece* border : {&first, &last})
      if (border->size > 0) step = border->step;
  }
  before.insert(before.end(), after.begin(), after.end());
  const int64_t how = step.value_or(0);
  t.out("y", t.graph.add("Pad", {t.in("x"), t.graph.integers(before)}, t.like("y"),
                         {{"mode", std::string(how < 0    ? "reflect"
                                               : how == 0 ? "edge"
                                                          : "wrap")}}));
}

void embedding(Translated& t) {
  BRIM_CHECK(t.option<int64_t>() < 0, NotImplemented, "a row of zeros");
  t.out("y",
        t.graph.add("Gather", {t.in("weight"), t.in("ids")}, t.like("y"), {{"axis", int64_t{0}}}));
}

/// The index is of x's rank; index_select repeats one of rank 1 along the other axes.
void gather(Translated& t) {
  const int64_t axis = t.option<backend::IndexOptions>().axis;
  const Window index = t.window("index");
  bool is_vector = true;
  for (size_t i = 0; i < index.shape.size(); ++i)
    is_vector = is_vector && (i == static_cast<size_t>(axis) || index.strides[i].is(0));
  if (is_vector) {
    const Value at =
        t.graph.reshape(t.in_broadcast("index"), {index.shape[static_cast<size_t>(axis)]});
    t.out("y", t.graph.add("Gather", {t.in("x"), at}, t.like("y"), {{"axis", axis}}));
  } else {
    t.out("y",
          t.graph.add("GatherElements", {t.in("x"), t.in("index")}, t.like("y"), {{"axis", axis}}));
  }
}

template <bool is_sum>
void scatter(Translated& t) {
  BRIM_CHECK(t.shape("index") == t.shape("source"), NotImplemented,
             "a source that is larger than the index");
  std::vector<Attribute> attributes = {{"axis", int64_t{t.option<backend::IndexOptions>().axis}}};
  if (is_sum) attributes.push_back({"reduction", std::string("add")});
  t.out("y", t.graph.add("ScatterElements", {t.in("y"), t.in("index"), t.in("source")}, t.like("y"),
                         std::move(attributes)));
}

const bool registered_moves =
    register_translation("copy", "Cast where the dtype changes", &copy) &&
    register_translation("fill", "ConstantOfShape", &fill) &&
    register_translation("arange", "an initializer", &arange) &&
    register_translation("triangle", "Trilu", &triangle) &&
    register_translation("copy_pieces", "Pad: reflect, edge, wrap", &copy_pieces) &&
    register_translation("embedding", "Gather", &embedding) &&
    register_translation("gather", "Gather, GatherElements", &gather) &&
    register_translation("scatter", "ScatterElements", &scatter<false>) &&
    register_translation("scatter_add", "ScatterElements", &scatter<true>);

}  // namespace
}  // namespace brim::deploy
