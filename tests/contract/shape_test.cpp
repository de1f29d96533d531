// Contract cases of the ops that move, join, split, repeat and pad.
#include <brim/ops/shape.h>

#include <algorithm>

#include "contract/contract.h"
#include "contract/positions.h"

namespace brim::contract {
namespace {

std::vector<std::vector<Input>> one(std::initializer_list<Shape> shapes) {
  std::vector<std::vector<Input>> all;
  for (const Shape& s : shapes) all.push_back({{.shape = s}});
  return all;
}

CONTRACT(reshape) {
  return {.op =
              [](Tensor x) {
                return x.reshape({3, -1, 2});
              },
          .inputs = one({{6, 4}, {2, 3, 4}, {3, 0, 2}, {6}}),
          .reference =
              [](Tensor x) {
                return array(values(x), {3, x.numel() / 6, 2});
              },
          .dtypes = kAllDTypes};
}
CONTRACT(flatten) {
  return {.op = [](Tensor x) { return x.flatten(1, -2); },
          .inputs = one({{2, 3, 4, 5}, {2, 1, 3}, {0, 2, 3, 1}}),
          .reference =
              [](Tensor x) {
                const int64_t a = x.shape()[0], c = x.shape().back();
                return array(values(x),
                             {a, x.rank() == 3 ? x.shape()[1] : x.shape()[1] * x.shape()[2], c});
              },
          .dtypes = kAllDTypes};
}
CONTRACT(permute) {
  return {
      .op =
          [](Tensor x) {
            return x.permute({2, 0, -2});
          },
      .inputs = one({{2, 3, 4}, {1, 5, 2}, {0, 3, 2}}),
      .reference =
          [](Tensor x) {
            const Reader r(x);
            const Shape s = x.shape();
            return build({s[2], s[0], s[1]}, [&](const Shape& p) { return r({p[1], p[2], p[0]}); });
          },
      .dtypes = kAllDTypes};
}
CONTRACT(transpose) {
  return {.op = [](Tensor x) { return x.transpose(-1, 0); },
          .inputs = one({{2, 3}, {3, 2, 5}, {0, 4}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                Shape to = x.shape();
                std::swap(to[0], to[x.rank() - 1]);
                return build(to, [&](Shape p) {
                  std::swap(p[0], p[p.rank() - 1]);
                  return r(p);
                });
              },
          .dtypes = kAllDTypes};
}
CONTRACT(movedim) {
  return {.op = [](Tensor x) { return movedim(x, 0, -1); },
          .inputs = one({{2, 3, 4}, {5}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                Shape to = x.shape();
                to.erase(0);
                to.push_back(x.shape()[0]);
                return build(to, [&](Shape p) {
                  const int64_t first = p.back();
                  p.erase(p.rank() - 1);
                  p.insert(0, first);
                  return r(p);
                });
              }};
}
CONTRACT(expand) {
  return {.op =
              [](Tensor x) {
                return x.expand({2, -1, 4});
              },
          .inputs = one({{3, 1}, {2, 3, 1}, {1, 4}, {0, 1}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                const int shift = 3 - x.rank();
                return build({2, x.shape()[1 - shift], 4}, [&](const Shape& p) {
                  Shape at = x.shape();
                  for (int d = 0; d < at.rank(); ++d) at[d] = at[d] == 1 ? 0 : p[d + shift];
                  return r(at);
                });
              },
          .dtypes = {f32, f64, i64, bool_}};
}
CONTRACT(squeeze_unsqueeze) {
  return {
      .op =
          [](Tensor x) {
            return Tensors{x.squeeze(), x.squeeze(1), x.unsqueeze(-1)};
          },
      .inputs = one({{2, 1, 3, 1}, {1, 1}, {0, 1}}),
      .reference =
          [](Tensor x) {
            Shape all, one = x.shape(), more = x.shape();
            for (int64_t d : x.shape())
              if (d != 1) all.push_back(d);
            one.erase(1);
            more.push_back(1);
            return Tensors{array(values(x), all), array(values(x), one), array(values(x), more)};
          },
      .dtypes = kSummedDTypes};
}
CONTRACT(slice) {
  return {.op = [](Tensor x) { return x.slice(1, -4, 6, 2); },
          .inputs = one({{2, 7}, {3, 5, 2}, {2, 0}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                const int64_t n = x.shape()[1], start = std::max<int64_t>(0, n - 4),
                              stop = std::min<int64_t>(n, 6);
                return build(with_size(x.shape(), 1, std::max<int64_t>(0, (stop - start + 1) / 2)),
                             [&](Shape p) {
                               p[1] = start + 2 * p[1];
                               return r(p);
                             });
              },
          .dtypes = kAllDTypes};
}
CONTRACT(select) {
  return {.op = [](Tensor x) { return x.select(1, -2); },
          .inputs = one({{2, 3}, {3, 2, 4}, {0, 2}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                Shape to = x.shape();
                to.erase(1);
                return build(to, [&](Shape p) {
                  p.insert(1, x.shape()[1] - 2);
                  return r(p);
                });
              },
          .dtypes = kAllDTypes};
}
CONTRACT(narrow) {
  return {.op = [](Tensor x) { return narrow(x, 0, -3, 2); },
          .inputs = one({{5}, {3, 4}, {4, 0}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                return build(with_size(x.shape(), 0, 2), [&](Shape p) {
                  p[0] += x.shape()[0] - 3;
                  return r(p);
                });
              }};
}
CONTRACT(diagonal) {
  return {.op =
              [](Tensor x) {
                return Tensors{diagonal(x), diagonal(x, 1, -1, 0), diagonal(x, -9)};
              },
          .inputs = one({{3, 5}, {4, 2, 3}, {0, 2}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                auto ref = [&](int64_t offset, int a, int b) {
                  const int64_t row = std::max<int64_t>(0, -offset),
                                col = std::max<int64_t>(0, offset);
                  const int64_t n =
                      std::max<int64_t>(0, std::min(x.shape()[a] - row, x.shape()[b] - col));
                  Shape to;
                  for (int d = 0; d < x.rank(); ++d)
                    if (d != a && d != b) to.push_back(x.shape()[d]);
                  to.push_back(n);
                  return build(to, [&](const Shape& p) {
                    Shape at = x.shape();
                    for (int d = 0, k = 0; d < x.rank(); ++d)
                      at[d] = d == a ? p.back() + row : d == b ? p.back() + col : p[k++];
                    return r(at);
                  });
                };
                return Tensors{ref(0, 0, 1), ref(1, x.rank() - 1, 0), ref(-9, 0, 1)};
              }};
}
CONTRACT(triangles) {
  return {.op =
              [](Tensor x) {
                return Tensors{tril(x), triu(x, 1), tril(x, -2), triu(x, -99)};
              },
          .inputs = one({{3, 5}, {2, 4, 3}, {2, 0}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                auto ref = [&](bool upper, int64_t k) {
                  return build(x.shape(), [&](const Shape& p) {
                    const int64_t d = p.back() - p[p.rank() - 2];
                    return (upper ? d >= k : d <= k) ? r(p) : 0.0;
                  });
                };
                return Tensors{ref(false, 0), ref(true, 1), ref(false, -2), ref(true, -99)};
              },
          .dtypes = kSummedDTypes};
}
CONTRACT(split) {
  return {.op =
              [](Tensor x) {
                Tensors parts = split(x, 2, 1);
                for (const Tensor& t : split(x, std::vector<int64_t>{1, 0, x.shape()[1] - 1}, 1))
                  parts.push_back(t);
                for (const Tensor& t : chunk(x, 2, 1)) parts.push_back(t);
                for (const Tensor& t : unbind(x, 0)) parts.push_back(t);
                return parts;
              },
          .inputs = one({{2, 5}, {3, 4, 2}, {0, 3}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                const int64_t n = x.shape()[1];
                Tensors parts;
                auto part = [&](int64_t start, int64_t stop) {
                  parts.push_back(build(with_size(x.shape(), 1, stop - start), [&](Shape p) {
                    p[1] += start;
                    return r(p);
                  }));
                };
                for (int64_t i = 0; i < n; i += 2) part(i, std::min(i + 2, n));
                part(0, 1);
                part(1, 1);
                part(1, n);
                part(0, (n + 1) / 2);
                part((n + 1) / 2, n);
                Shape rest = x.shape();
                rest.erase(0);
                for (int64_t i = 0; i < x.shape()[0]; ++i)
                  parts.push_back(build(rest, [&](Shape p) {
                    p.insert(0, i);
                    return r(p);
                  }));
                return parts;
              }};
}
CONTRACT(cat) {
  return {.op = [](const Tensors& x) { return cat(x, -1); },
          .inputs = {{{.shape = {2, 3}}, {.shape = {2, 1}}, {.shape = {2, 4}}},
                     {{.shape = {2, 3}}, {.shape = {2, 0}}},
                     {{.shape = {4}}},
                     {{.shape = {0, 2}}, {.shape = {0, 3}}}},
          .reference =
              [](const Tensors& xs) {
                int64_t total = 0;
                for (const Tensor& x : xs) total += x.shape().back();
                const int last = xs[0].rank() - 1;
                return build(with_size(xs[0].shape(), last, total), [&](Shape p) {
                  size_t k = 0;
                  for (; p[last] >= xs[k].shape()[last]; ++k) p[last] -= xs[k].shape()[last];
                  return Reader(xs[k])(p);
                });
              },
          .dtypes = kAllDTypes};
}
CONTRACT(stack) {
  return {.op = [](const Tensors& x) { return stack(x, 1); },
          .inputs = {{{.shape = {2, 3}}, {.shape = {2, 3}}, {.shape = {2, 3}}},
                     {{.shape = {4}}},
                     {{.shape = {0, 2}}, {.shape = {0, 2}}}},
          .reference =
              [](const Tensors& xs) {
                Shape to = xs[0].shape();
                to.insert(1, static_cast<int64_t>(xs.size()));
                return build(to, [&](Shape p) {
                  const size_t k = static_cast<size_t>(p[1]);
                  p.erase(1);
                  return Reader(xs[k])(p);
                });
              },
          .dtypes = kAllDTypes};
}
CONTRACT(repeat) {
  return {.op =
              [](Tensor x) {
                return Tensors{repeat(x, {2, 1, 3}), repeat(x, {1, 1, 1}), repeat(x, {1, 0, 2})};
              },
          .inputs = one({{2, 3}, {2, 1, 2}, {4}, {}, {2, 0}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                auto ref = [&](Shape times) {
                  Shape from = x.shape(), to = times;
                  while (from.rank() < 3) from.insert(0, 1);
                  for (int d = 0; d < 3; ++d) to[d] = times[d] * from[d];
                  return build(to, [&](const Shape& p) {
                    Shape at = x.shape();
                    for (int d = 0; d < at.rank(); ++d)
                      at[d] = p[d + 3 - at.rank()] % from[d + 3 - at.rank()];
                    return r(at);
                  });
                };
                return Tensors{ref({2, 1, 3}), ref({1, 1, 1}), ref({1, 0, 2})};
              },
          .dtypes = {f32, f64, i64, u8, bool_}};
}
CONTRACT(repeat_interleave) {
  return {.op =
              [](Tensor x) {
                return Tensors{
                    repeat_interleave(x, 3, 0), repeat_interleave(x, 2),
                    repeat_interleave(x, std::vector<int64_t>{2, 0, 1}, 0),
                    repeat_interleave(x, Tensor::from<int64_t>({0, 1, 2}, {3}, x.device()), 0)};
              },
          .inputs = one({{3}, {3, 2}, {3, 1, 2}, {3, 0}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                auto rows = [&](std::vector<int64_t> from) {
                  return build(with_size(x.shape(), 0, static_cast<int64_t>(from.size())),
                               [&](Shape p) {
                                 p[0] = from[static_cast<size_t>(p[0])];
                                 return r(p);
                               });
                };
                std::vector<double> twice;
                for (double v : values(x)) twice.insert(twice.end(), {v, v});
                return Tensors{rows({0, 0, 0, 1, 1, 1, 2, 2, 2}), array(twice, {2 * x.numel()}),
                               rows({0, 0, 2}), rows({1, 2, 2})};
              },
          .dtypes = {f32, f64, i64, u8, bool_}};
}
CONTRACT(flip) {
  return {.op =
              [](Tensor x) {
                return Tensors{flip(x, {0, -1}), flip(x, {1}), flip(x, {})};
              },
          .inputs = one({{3, 5}, {2, 3, 4}, {0, 2}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                auto ref = [&](std::vector<int> axes) {
                  return build(x.shape(), [&](Shape p) {
                    for (int a : axes) p[a] = x.shape()[a] - 1 - p[a];
                    return r(p);
                  });
                };
                return Tensors{ref({0, x.rank() - 1}), ref({1}), ref({})};
              },
          .dtypes = kSummedDTypes};
}
CONTRACT(roll) {
  return {.op =
              [](Tensor x) {
                return Tensors{roll(x, {-1, 7}, {0, 1}), roll(x, {4}), roll(x, {0}, {0})};
              },
          .inputs = one({{3, 5}, {2, 3, 2}, {2, 0}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                const Shape s = x.shape();
                const Tensor two = build(s, [&](Shape p) {
                  p[0] = (p[0] + 1) % s[0];
                  p[1] = (p[1] - 7 + 7 * s[1]) % s[1];
                  return r(p);
                });
                std::vector<double> v = values(x);
                if (!v.empty())
                  std::rotate(v.begin(), v.end() - 4 % static_cast<std::ptrdiff_t>(v.size()),
                              v.end());
                return Tensors{two, array(v, s), x};
              },
          .dtypes = kSummedDTypes};
}
CONTRACT(pad_constant) {
  return {.op =
              [](Tensor x) {
                return Tensors{pad(x, {1, 2, 0, 3}, PadMode::constant, 1), pad(x, {-1, 0, 1, -1}),
                               pad(x, {-9, 9})};
              },
          .inputs = one({{2, 3}, {2, 3, 4}, {1, 1}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                auto ref = [&](int64_t left, int64_t right, int64_t top, int64_t bottom, double v) {
                  const int w = x.rank() - 1, h = w - 1;
                  Shape to = x.shape();
                  to[w] += left + right;
                  to[h] += top + bottom;
                  return build(to, [&](Shape p) {
                    p[w] -= left;
                    p[h] -= top;
                    const bool inside =
                        p[w] >= 0 && p[w] < x.shape()[w] && p[h] >= 0 && p[h] < x.shape()[h];
                    return inside ? r(p) : v;
                  });
                };
                return Tensors{ref(1, 2, 0, 3, 1), ref(-1, 0, 1, -1, 0), ref(-9, 9, 0, 0, 0)};
              },
          .dtypes = kSummedDTypes};
}
CONTRACT(pad_modes) {
  return {.op =
              [](Tensor x) {
                return Tensors{pad(x, {2, 1, 0, 1}, PadMode::reflect),
                               pad(x, {2, 1, 0, 3}, PadMode::replicate),
                               pad(x, {2, 3, 1, 0}, PadMode::circular),
                               pad(x, {-1, 2}, PadMode::replicate)};
              },
          .inputs = one({{2, 3}, {2, 2, 4}, {0, 2, 3}}),
          .reference =
              [](Tensor x) {
                const Reader r(x);
                auto ref = [&](PadMode mode, std::vector<int64_t> pads) {
                  Shape to = x.shape();
                  const int last = x.rank() - 1;
                  for (size_t i = 0; i < pads.size(); ++i)
                    to[last - static_cast<int>(i / 2)] += pads[i];
                  return build(to, [&](Shape p) {
                    for (size_t i = 0; i < pads.size() / 2; ++i) {
                      const int d = last - static_cast<int>(i);
                      const int64_t n = x.shape()[d];
                      int64_t q = p[d] - pads[2 * i];
                      if (mode == PadMode::circular) q = (q + n) % n;
                      if (mode == PadMode::replicate)
                        q = std::clamp<int64_t>(q, std::max<int64_t>(0, -pads[2 * i]), n - 1);
                      if (mode == PadMode::reflect) q = q < 0 ? -q : q >= n ? 2 * (n - 1) - q : q;
                      p[d] = q;
                    }
                    return r(p);
                  });
                };
                return Tensors{
                    ref(PadMode::reflect, {2, 1, 0, 1}), ref(PadMode::replicate, {2, 1, 0, 3}),
                    ref(PadMode::circular, {2, 3, 1, 0}), ref(PadMode::replicate, {-1, 2})};
              },
          .dtypes = {f32, f64, i64, u8, bool_}};
}

}  // namespace
}  // namespace brim::contract
