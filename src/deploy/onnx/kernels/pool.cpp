// Pooling and resizing of images.
#include <cmath>

#include "backend/options/geometry.h"
#include "backend/options/resize.h"
#include "deploy/onnx/translation.h"

namespace brim::deploy {
namespace {

using backend::PoolGeometry;
using Sizes = std::vector<int64_t>;

/// One axis of a pooling, with the padding behind it that makes as many windows as there are.
struct PoolAxis {
  int64_t size, windows, kernel, stride, padding, dilation;
  int64_t covered() const { return dilation * (kernel - 1) + 1; }
  bool is_plain() const { return (size + 2 * padding - covered()) / stride + 1 == windows; }
  int64_t behind() const {
    return is_plain() ? padding : (windows - 1) * stride + covered() - size - padding;
  }
};
PoolAxis rows_of(const PoolGeometry& g) {
  return {g.h, g.oh, g.kernel.h, g.stride.h, g.padding.h, g.dilation.h};
}
PoolAxis columns_of(const PoolGeometry& g) {
  return {g.w, g.ow, g.kernel.w, g.stride.w, g.padding.w, g.dilation.w};
}

std::vector<Attribute> pooling_attributes(const PoolGeometry& g) {
  return {{"kernel_shape", Sizes{g.kernel.h, g.kernel.w}},
          {"strides", Sizes{g.stride.h, g.stride.w}},
          {"pads", Sizes{g.padding.h, g.padding.w, rows_of(g).behind(), columns_of(g).behind()}}};
}

void max_pool2d(Translated& t) {
  const PoolGeometry& g = t.sizes<PoolGeometry>();
  std::vector<Attribute> attributes = pooling_attributes(g);
  attributes.push_back({"dilations", Sizes{g.dilation.h, g.dilation.w}});
  t.out("y", t.graph.add("MaxPool", {t.in("x")}, t.like("y"), std::move(attributes)));
}

void avg_pool2d(Translated& t) {
  const PoolGeometry& g = t.sizes<PoolGeometry>();
  const bool is_plain = rows_of(g).is_plain() && columns_of(g).is_plain();
  const bool is_padded = g.padding != Pair(0);
  // Windows that reach beyond the end divide by what they have, as those over uncounted padding.
  BRIM_CHECK(is_plain || !is_padded || !g.count_include_pad, NotImplemented,
             "ceil_mode with counted padding");
  std::vector<Attribute> attributes = pooling_attributes(g);
  attributes.push_back({"count_include_pad", int64_t{is_padded && g.count_include_pad ? 1 : 0}});
  t.out("y", t.graph.add("AveragePool", {t.in("x")}, t.like("y"), std::move(attributes)));
}

/// (windows, size): the share of each element in each window.
Tensor shares_of(int64_t size, int64_t windows) {
  std::vector<float> all(static_cast<size_t>(size * windows), 0.0F);
  for (int64_t o = 0; o < windows; ++o) {
    const int64_t begin = o * size / windows, end = ((o + 1) * size + windows - 1) / windows;
    for (int64_t i = begin; i < end; ++i)
      all[static_cast<size_t>(o * size + i)] = 1.0F / static_cast<float>(end - begin);
  }
  return Tensor::from<float>(all, {windows, size});
}

void adaptive_avg_pool2d(Translated& t) {
  const PoolGeometry& g = t.sizes<PoolGeometry>();
  const Value x = t.in("x");
  const Output y = t.like("y");
  if (g.oh == 1 && g.ow == 1) {
    t.out("y", t.graph.add("GlobalAveragePool", {x}, y));
  } else if (g.h % g.oh == 0 && g.w % g.ow == 0) {
    const Sizes window = {g.h / g.oh, g.w / g.ow};
    t.out("y", t.graph.add("AveragePool", {x}, y, {{"kernel_shape", window}, {"strides", window}}));
  } else {
    const DType dtype = t.dtype("x");
    const Value rows = t.graph.initializer("shares", shares_of(g.h, g.oh).to(dtype));
    const Value columns =
        t.graph.initializer("shares", shares_of(g.w, g.ow).t().contiguous().to(dtype));
    Extents shape = y.shape;
    shape[3] = g.w;
    t.out("y",
          t.graph.add("MatMul", {t.graph.add("MatMul", {rows, x}, {shape, dtype}), columns}, y));
  }
}

void interpolate(Translated& t) {
  const auto& g = t.sizes<backend::ResizeGeometry>();
  const auto is_by_sizes = [](const backend::ResizeAxis& a) {
    return a.step == static_cast<double>(a.from) / static_cast<double>(a.to);
  };
  std::vector<Attribute> attributes = {
      {"axes", Sizes{2, 3}},
      {"mode", std::string(g.bilinear ? "linear" : "nearest")},
      {"coordinate_transformation_mode", std::string(!g.bilinear       ? "asymmetric"
                                                     : g.align_corners ? "align_corners"
                                                                       : "half_pixel")}};
  if (!g.bilinear) attributes.push_back({"nearest_mode", std::string("floor")});
  std::vector<Value> inputs = {t.in("x"), {}, {}, {}};
  if (g.align_corners || (is_by_sizes(g.rows) && is_by_sizes(g.columns))) {
    inputs[3] = t.graph.integers({g.rows.to, g.columns.to});
  } else {
    const float rows = static_cast<float>(1 / g.rows.step);
    const float columns = static_cast<float>(1 / g.columns.step);
    const auto makes = [](const backend::ResizeAxis& a, float scale) {
      return static_cast<int64_t>(std::floor(static_cast<float>(a.from) * scale)) == a.to;
    };
    BRIM_CHECK(makes(g.rows, rows) && makes(g.columns, columns), NotImplemented,
               "a scale that makes other sizes in f32");
    inputs[2] = t.graph.initializer("scales", Tensor::from<float>({rows, columns}, {2}));
  }
  t.out("y", t.graph.add("Resize", inputs, t.like("y"), std::move(attributes)));
}

const bool registered_pools =
    register_translation("max_pool2d", "MaxPool", &max_pool2d) &&
    register_translation("avg_pool2d", "AveragePool", &avg_pool2d) &&
    register_translation("adaptive_avg_pool2d",
                         "GlobalAveragePool; AveragePool where sizes divide, else MatMul",
                         &adaptive_avg_pool2d) &&
    register_translation("interpolate", "Resize", &interpolate);

}  // namespace
}  // namespace brim::deploy
