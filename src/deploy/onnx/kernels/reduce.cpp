// Reductions, and what orders the elements of an axis.
#include "backend/options/sort_options.h"
#include "deploy/onnx/translation.h"

namespace brim::deploy {
namespace {

/// Axes along which y has one element and x more.
Value reduced_axes(Translated& t) {
  const Extents x = t.shape("x"), y = t.shape("y");
  std::vector<int64_t> axes;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != y[i]) axes.push_back(static_cast<int64_t>(i));
  return t.graph.integers(axes);
}

/// How many elements these are.
int64_t reduced_count(const Translated& t) {
  const Extents x = t.shape("x"), y = t.shape("y");
  int64_t count = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;
    BRIM_CHECK(x[i].is_fixed(), deploy::DependsOnBatch, "a variance over the batch");
    count *= x[i].fixed;
  }
  return count;
}

/// Without axes nothing is reduced.
Value reduced(Translated& t, std::string_view op, const Value& x) {
  return t.graph.add(op, {x, reduced_axes(t)}, {t.shape("y"), x.dtype},
                     {{"keepdims", int64_t{1}}, {"noop_with_empty_axes", int64_t{1}}});
}

void sum(Translated& t) {
  t.out("y", reduced(t, "ReduceSum", t.graph.cast(t.in("x"), t.dtype("y"))));
}
void mean(Translated& t) { t.out("y", reduced(t, "ReduceMean", t.in("x"))); }
void max(Translated& t) { t.out("y", reduced(t, "ReduceMax", t.in("x"))); }
void min(Translated& t) { t.out("y", reduced(t, "ReduceMin", t.in("x"))); }
void prod(Translated& t) {
  t.out("y", reduced(t, "ReduceProd", t.graph.cast(t.in("x"), t.dtype("y"))));
}
void norm(Translated& t) {
  const bool is_of_one = t.shape("x") == t.shape("y");  // element
  t.out("y", is_of_one ? t.graph.add("Abs", {t.in("x")}, t.like("y"))
                       : reduced(t, "ReduceL2", t.in("x")));
}

/// Truth values as integers.
void any(Translated& t) {
  const Value truth = t.graph.cast(t.graph.cast(t.in("x"), DType::bool_), DType::i32);
  t.out("y", t.graph.cast(reduced(t, "ReduceMax", truth), DType::bool_));
}
void all(Translated& t) {
  const Value truth = t.graph.cast(t.graph.cast(t.in("x"), DType::bool_), DType::i32);
  t.out("y", t.graph.cast(reduced(t, "ReduceMin", truth), DType::bool_));
}

/// x: (rows, elements), y: one for each row, of any shape.
void logsumexp(Translated& t) {
  t.out("y", t.graph.add("ReduceLogSumExp", {t.in("x"), t.graph.integers({1})},
                         {{t.shape("x")[0]}, t.dtype("y")}, {{"keepdims", int64_t{0}}}));
}

Value variance(Translated& t) {
  const double divisor = static_cast<double>(reduced_count(t)) - t.option<double>();
  BRIM_CHECK(divisor > 0, NotImplemented, "a variance of too few elements");
  const Value x = t.in("x"), average = reduced(t, "ReduceMean", x);
  const Value centred = t.graph.add("Sub", {x, average}, t.like("x"));
  const Value squares = t.graph.add("Mul", {centred, centred}, t.like("x"));
  return t.graph.add("Div", {reduced(t, "ReduceSum", squares), t.graph.scalar(divisor, x.dtype)},
                     t.like("y"));
}
void var(Translated& t) { t.out("y", variance(t)); }
void stddev(Translated& t) { t.out("y", t.graph.add("Sqrt", {variance(t)}, t.like("y"))); }

/// The extremum along an axis, and where it is first.
template <bool is_max>
void extremum(Translated& t) {
  const Value x = t.in("x");
  const int64_t axis = t.option<int>();
  Extents shape = x.shape;
  shape[static_cast<size_t>(axis)] = 1;
  t.out("values", t.graph.add(is_max ? "ReduceMax" : "ReduceMin", {x, t.graph.integers({axis})},
                              {shape, x.dtype}, {{"keepdims", int64_t{1}}}));
  t.out("indices", t.graph.add(is_max ? "ArgMax" : "ArgMin", {x}, {shape, DType::i64},
                               {{"axis", axis}, {"keepdims", int64_t{1}}}));
}

void cumsum(Translated& t) {
  const Value x = t.graph.cast(t.in("x"), t.dtype("y"));
  t.out("y", t.graph.add("CumSum", {x, t.graph.scalar(t.option<int>(), DType::i64)}, t.like("y"),
                         {{"reverse", int64_t{t.option<bool>()}}}));
}

void sort(Translated& t) {
  const auto& o = t.option<backend::SortOptions>();
  const std::vector<Value> made = t.graph.add_many(
      "TopK", {t.in("x"), t.graph.integers({o.count})}, {t.like("values"), t.like("indices")},
      {{"axis", int64_t{o.axis}}, {"largest", int64_t{o.descending}}, {"sorted", int64_t{1}}});
  t.out("values", made[0]);
  t.out("indices", made[1]);
}

const bool registered_reductions =
    register_translation("sum", "ReduceSum", &sum) &&
    register_translation("mean", "ReduceMean", &mean) &&
    register_translation("max", "ReduceMax", &max) &&
    register_translation("min", "ReduceMin", &min) &&
    register_translation("prod", "ReduceProd", &prod) &&
    register_translation("norm", "ReduceL2", &norm) &&
    register_translation("any", "Cast, ReduceMax, Cast", &any) &&
    register_translation("all", "Cast, ReduceMin, Cast", &all) &&
    register_translation("logsumexp", "ReduceLogSumExp", &logsumexp) &&
    register_translation("var", "ReduceMean, Sub, Mul, ReduceSum, Div", &var) &&
    register_translation("stddev", "as var, Sqrt", &stddev) &&
    register_translation("max_index", "ReduceMax, ArgMax", &extremum<true>) &&
    register_translation("min_index", "ReduceMin, ArgMin", &extremum<false>) &&
    register_translation("cumsum", "CumSum", &cumsum) &&
    register_translation("sort", "TopK", &sort);

}  // namespace
}  // namespace brim::deploy
