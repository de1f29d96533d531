// Contract cases of indexing and sorting.
#include <brim/ops/index.h>
#include <brim/ops/sort.h>

#include <algorithm>
#include <numeric>

#include "contract/contract.h"
#include "contract/positions.h"

namespace brim::contract {
namespace {

Input ids(const Shape& shape, double size) {
  return {.shape = shape, .low = 0, .high = size, .dtype = i64};
}

/// More indices than elements, so that some repeat.
std::vector<std::vector<Input>> select_inputs() {
  return {{{.shape = {5, 3}}, ids({4}, 5)},
          {{.shape = {4}}, ids({9}, 4)},
          {{.shape = {4, 2, 3}}, ids({6}, 4)},
          {{.shape = {3, 2}}, ids({0}, 3)},
          {{.shape = {3, 0}}, ids({2}, 3)}};
}
CONTRACT(index_select) {
  return {.op = [](Tensor x, Tensor i) { return index_select(x, 0, i); },
          .inputs = select_inputs(),
          .reference =
              [](Tensor x, Tensor i) {
                const Reader r(x);
                const std::vector<double> index = values(i);
                return build(with_size(x.shape(), 0, i.numel()), [&](Shape p) {
                  p[0] = static_cast<int64_t>(index[static_cast<size_t>(p[0])]);
                  return r(p);
                });
              },
          .dtypes = kAllDTypes};
}
CONTRACT(index_select_last) {
  return {.op = [](Tensor x, Tensor i) { return index_select(x, -1, i.to(i32)); },
          .inputs = {{{.shape = {2, 3, 5}}, ids({7}, 5)}, {{.shape = {3, 4}}, ids({2}, 4)}},
          .reference =
              [](Tensor x, Tensor i) {
                const Reader r(x);
                const std::vector<double> index = values(i);
                const int last = x.rank() - 1;
                return build(with_size(x.shape(), last, i.numel()), [&](Shape p) {
                  p[last] = static_cast<int64_t>(index[static_cast<size_t>(p[last])]);
                  return r(p);
                });
              }};
}

std::vector<std::vector<Input>> gather_inputs() {
  return {{{.shape = {4, 5}}, ids({4, 3}, 5)},
          {{.shape = {3, 4}}, ids({2, 9}, 4)},
          {{.shape = {2, 3, 4}}, ids({2, 5, 3}, 3)},
          {{.shape = {3, 4}}, ids({3, 0}, 4)},
          {{.shape = {0, 4}}, ids({0, 2}, 4)}};
}
CONTRACT(gather) {
  return {.op = [](Tensor x, Tensor i) { return gather(x, 1, i); },
          .inputs = gather_inputs(),
          .reference =
              [](Tensor x, Tensor i) {
                const Reader r(x), index(i);
                return build(i.shape(), [&](Shape p) {
                  p[1] = static_cast<int64_t>(index(p));
                  return r(p);
                });
              },
          .dtypes = kAllDTypes};
}
CONTRACT(gather_first) {
  return {.op = [](Tensor x, Tensor i) { return gather(x, 0, i); },
          .inputs = {{{.shape = {4}}, ids({7}, 4)}, {{.shape = {4, 5, 2}}, ids({6, 3, 2}, 4)}},
          .reference =
              [](Tensor x, Tensor i) {
                const Reader r(x), index(i);
                return build(i.shape(), [&](Shape p) {
                  p[0] = static_cast<int64_t>(index(p));
                  return r(p);
                });
              }};
}
CONTRACT(take_along) {
  return {
      .op = [](Tensor x, Tensor i) { return take_along(x, i, 1); },
      .inputs = {{{.shape = {4, 5}}, ids({1, 3}, 5)}, {{.shape = {1, 5}}, ids({3, 2}, 5)}},
      .reference =
          [](Tensor x, Tensor i) {
            const Reader r(x), index(i);
            const Shape to = {std::max(x.shape()[0], i.shape()[0]), i.shape()[1]};
            return build(to, [&](const Shape& p) {
              const int64_t j = static_cast<int64_t>(index({i.shape()[0] == 1 ? 0 : p[0], p[1]}));
              return r({x.shape()[0] == 1 ? 0 : p[0], j});
            });
          }};
}

/// x with write(element, source element) for every index along `axis`.
template <class Write>
Tensor scatter_reference(const Tensor& x, int axis, const Tensor& i, const Tensor& source,
                         const Write& write) {
  const Reader index(i), from(source);
  std::vector<double> y = values(x);
  for_each_position(i.shape(), [&](const Shape& p) {
    int64_t at = 0;
    for (int d = 0; d < x.rank(); ++d)
      at = at * x.shape()[d] + (d == axis ? static_cast<int64_t>(index(p)) : p[d]);
    write(y[static_cast<size_t>(at)], from(p));
  });
  return array(y, x.shape());
}

CONTRACT(scatter_add) {
  return {.op = [](Tensor x, Tensor i, Tensor s) { return scatter_add(x, 1, i, s); },
          .inputs = {{{.shape = {4, 5}}, ids({4, 3}, 5), {.shape = {4, 3}}},
                     {{.shape = {3, 4}}, ids({2, 9}, 4), {.shape = {3, 10}}},
                     {{.shape = {2, 3, 4}}, ids({2, 7, 4}, 3), {.shape = {2, 7, 4}}},
                     {{.shape = {3, 4}}, ids({3, 0}, 4), {.shape = {3, 0}}}},
          .reference =
              [](Tensor x, Tensor i, Tensor s) {
                return scatter_reference(x, 1, i, s, [](double& y, double v) { y += v; });
              },
          .dtypes = {f32, f64, i64, i32}};
}
CONTRACT(scatter_add_first) {
  return {.op = [](Tensor x, Tensor i, Tensor s) { return scatter_add(x, 0, i, s); },
          .inputs = {{{.shape = {4, 5}}, ids({9, 5}, 4), {.shape = {9, 5}}},
                     {{.shape = {4}}, ids({9}, 4), {.shape = {9}}}},
          .reference =
              [](Tensor x, Tensor i, Tensor s) {
                return scatter_reference(x, 0, i, s, [](double& y, double v) { y += v; });
              }};
}
CONTRACT(scatter) {
  return {.op =
              [](Tensor x, Tensor i, Tensor s) {
                return Tensors{scatter(x, 1, i, s), scatter(x, 1, i, 1.0)};
              },
          // No more indices than elements: those of one row are distinct, as the gradient needs.
          .inputs = {{{.shape = {1, 9}}, ids({1, 5}, 9), {.shape = {1, 5}}},
                     {{.shape = {2, 4, 3}}, ids({1, 4, 1}, 4), {.shape = {2, 4, 2}}},
                     {{.shape = {3, 4}}, ids({0, 3}, 4), {.shape = {0, 3}}}},
          .reference =
              [](Tensor x, Tensor i, Tensor s) {
                auto set = [](double& y, double v) { y = v; };
                const Tensor one = build(i.shape(), [](const Shape&) { return 1.0; });
                return Tensors{scatter_reference(x, 1, i, s, set),
                               scatter_reference(x, 1, i, one, set)};
              },
          .dtypes = kSummedDTypes,
          .expanded = false};
}
CONTRACT(index_add) {
  return {.op = [](Tensor x, Tensor i, Tensor s) { return index_add(x, 0, i, s, 0.5); },
          .inputs = {{{.shape = {4, 5}}, ids({9}, 4), {.shape = {9, 5}}},
                     {{.shape = {3}}, ids({2}, 3), {.shape = {2}}},
                     {{.shape = {3, 2}}, ids({0}, 3), {.shape = {0, 2}}}},
          .reference =
              [](Tensor x, Tensor i, Tensor s) {
                Shape wide = s.shape();
                const std::vector<double> index = values(i);
                const Tensor full =
                    build(wide, [&](const Shape& p) { return index[static_cast<size_t>(p[0])]; });
                return scatter_reference(x, 0, full, s, [](double& y, double v) { y += 0.5 * v; });
              }};
}
CONTRACT(masked_select) {
  return {.op = [](Tensor x, Tensor m) { return masked_select(x, m); },
          .inputs = {{{.shape = {4, 5}}, {.shape = {4, 5}, .dtype = bool_}},
                     {{.shape = {3, 1}}, {.shape = {4}, .dtype = bool_}},
                     {{.shape = {0, 4}}, {.shape = {4}, .dtype = bool_}}},
          .reference =
              [](Tensor x, Tensor m) {
                const Shape shape = broadcast_shapes(x.shape(), m.shape(), "reference");
                const std::vector<double> v = values(x.expand(shape)),
                                          mask = values(m.expand(shape));
                std::vector<double> y;
                for (size_t i = 0; i < v.size(); ++i)
                  if (mask[i] != 0) y.push_back(v[i]);
                return array(y, {static_cast<int64_t>(y.size())});
              },
          .dtypes = {f32, f64, i64, bool_}};
}
CONTRACT(nonzero) {
  return {.op = [](Tensor m) { return nonzero(m); },
          .inputs = {{{.shape = {3, 4}, .dtype = bool_}},
                     {{.shape = {2, 3, 2}, .low = -1, .dtype = i64}}},
          .reference =
              [](Tensor m) {
                const Reader r(m);
                std::vector<double> at;
                for_each_position(m.shape(), [&](const Shape& p) {
                  if (r(p) != 0) at.insert(at.end(), p.begin(), p.end());
                });
                return array(at, {static_cast<int64_t>(at.size()) / m.rank(), m.rank()}, i64);
              }};
}
CONTRACT(one_hot) {
  return {.op = [](Tensor i) { return one_hot(i, 5); },
          .inputs = {{ids({7}, 5)}, {ids({2, 3}, 4)}, {ids({}, 5)}, {ids({0}, 5)}},
          .reference =
              [](Tensor i) {
                const Reader r(i);
                Shape to = i.shape();
                to.push_back(5);
                return build(
                    to,
                    [&](Shape p) {
                      const int64_t c = p.back();
                      p.erase(p.rank() - 1);
                      return r(p) == static_cast<double>(c) ? 1.0 : 0.0;
                    },
                    i64);
              }};
}

/// Values and positions of each line along `axis` in stable order, the first `count` of them.
Tensors sort_reference(const Tensor& x, int axis, bool descending, int64_t count) {
  const Reader r(x);
  const Shape to = with_size(x.shape(), axis, count);
  auto order = [&](Shape p) {
    std::vector<int64_t> index(static_cast<size_t>(x.shape()[axis]));
    std::iota(index.begin(), index.end(), 0);
    auto at = [&](int64_t i) { return r(with_size(p, axis, i)); };
    std::stable_sort(index.begin(), index.end(), [&](int64_t a, int64_t b) {
      return descending ? at(a) > at(b) : at(a) < at(b);
    });
    return index[static_cast<size_t>(p[axis])];
  };
  return {build(to, [&](const Shape& p) { return r(with_size(p, axis, order(p))); }),
          build(
              to, [&](const Shape& p) { return static_cast<double>(order(p)); }, i64)};
}
CONTRACT(sort) {
  return {.op =
              [](Tensor x) {
                const auto [v, i] = sort(x);
                const auto [w, j] = sort(x, 0, true);
                return Tensors{v, i, w, j, argsort(x)};
              },
          .inputs = {{{.shape = {3, 7}}},
                     {{.shape = {5, 2, 4}}},
                     {{.shape = {9}}},
                     {{.shape = {2, 0}}}},
          .reference =
              [](Tensor x) {
                const Tensors a = sort_reference(x, x.rank() - 1, false, x.shape().back());
                const Tensors b = sort_reference(x, 0, true, x.shape()[0]);
                return Tensors{a[0], a[1], b[0], b[1], a[1]};
              },
          .dtypes = kSummedDTypes};
}
CONTRACT(topk) {
  return {.op =
              [](Tensor x) {
                const auto [v, i] = topk(x, 2);
                const auto [w, j] = topk(x, 3, 0, false);
                return Tensors{v, i, w, j, topk(x, 0).values};
              },
          .inputs = {{{.shape = {3, 7}}}, {{.shape = {5, 2, 4}}}, {{.shape = {9}}}},
          .reference =
              [](Tensor x) {
                const Tensors a = sort_reference(x, x.rank() - 1, true, 2);
                const Tensors b = sort_reference(x, 0, false, 3);
                return Tensors{a[0], a[1], b[0], b[1],
                               array({}, with_size(x.shape(), x.rank() - 1, 0))};
              },
          .dtypes = kSummedDTypes};
}

}  // namespace
}  // namespace brim::contract
