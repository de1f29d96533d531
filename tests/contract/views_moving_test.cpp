// Views for reductions, and for ops that move, join, repeat, index and sort.
#include <algorithm>

#include <brim/ops/binary.h>
#include <brim/ops/index.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/sort.h>
#include <brim/ops/unary.h>

#include "contract/views.h"

namespace brim::contract {
namespace {

using Situations = std::vector<std::vector<Input>>;

/// One input of each rank from `first` to `last`.
Situations ranks(int first = 0, int last = kMaxRank) {
  Situations all;
  for (const int rank : kRanks)
    if (rank >= first && rank <= last) all.push_back({{.shape = shape_of_rank(rank)}});
  return all;
}

Input index_of(const Shape& shape, int64_t size) {
  return {.shape = shape, .low = 0, .high = static_cast<double>(size), .dtype = i64};
}

/// x of each rank, and indices along its first axis: as many as `count` says, of x's rank.
Situations indexed(int64_t count, bool source) {
  Situations all;
  for (const int rank : kRanks) {
    if (rank == 0) continue;
    const Shape shape = shape_of_rank(rank);
    Shape picked = shape;
    picked[0] = count;
    all.push_back({{.shape = shape}, index_of(picked, shape[0])});
    if (source) all.back().push_back({.shape = picked});
  }
  return all;
}
/// The same with a vector of indices.
Situations selected(bool source) {
  Situations all;
  for (std::vector<Input> inputs : indexed(5, source)) {
    inputs[1] = index_of({5}, inputs[0].shape[0]);
    all.push_back(inputs);
  }
  return all;
}

/// Over all axes, the first and the last.
template <class Op>
Function over_axes(const Op& op) {
  return [=](Tensor x) {
    Tensors all = {op(x, std::vector<int>{})};
    if (x.rank() > 0) all.push_back(op(x, std::vector<int>{0}));
    if (x.rank() > 1) all.push_back(op(x, std::vector<int>{-1}));
    if (x.rank() > 2) all.push_back(op(x, std::vector<int>{0, -1}));
    return all;
  };
}
template <class Op>
Function along_axes(const Op& op) {
  return [=](Tensor x) {
    Tensors all;
    for (const int axis : {0, -1})
      for (const Tensor& y : op(x, axis)) all.push_back(y);
    return all;
  };
}

}  // namespace

#define REDUCTION(op)                                                                      \
  {                                                                                        \
#op, over_axes([](const Tensor& x, const auto& axes) { return op(x, axes); }), ranks() \
  }
#define EXTREMUM(op)                                                        \
  {                                                                         \
#op, along_axes([](const Tensor& x, int axis) {                         \
      const Extremum y = op(x, axis);                                       \
      return Tensors{op(x), y.values, y.indices, op(x, axis, true).values}; \
    }),                                                                     \
        ranks()                                                             \
  }
#define ALONG(op, ...)                                                                       \
  {                                                                                          \
#op, along_axes([](const Tensor& x, int axis) { return Tensors{__VA_ARGS__}; }), ranks() \
  }
#define MOVED(op, first, ...)                               \
  {                                                         \
#op, [](Tensor x) { return __VA_ARGS__; }, ranks(first) \
  }

std::vector<ViewCase> moving_views() {
  return {
      REDUCTION(sum),
      REDUCTION(mean),
      REDUCTION(prod),
      REDUCTION(amax),
      REDUCTION(amin),
      REDUCTION(var),
      REDUCTION(stddev),
      REDUCTION(logsumexp),
      REDUCTION(any),
      REDUCTION(all),
      {"norm", over_axes([](const Tensor& x, const auto& axes) {
         return norm(x, 2, axes) + norm(x, 3, axes) + norm(x, 1, axes);
       }),
       ranks()},
      EXTREMUM(max),
      EXTREMUM(min),
      ALONG(argmax, argmax(x, axis), argmax(x)),
      ALONG(argmin, argmin(x, axis), argmin(x)),
      ALONG(cumsum, cumsum(x, axis)),
      ALONG(argsort, argsort(x, axis)),
      ALONG(sort, sort(x, axis).values, sort(x, axis, true).indices),
      ALONG(topk, topk(x, 1, axis).values, topk(x, 1, axis, false).indices),
      {"unique",
       [](Tensor x) {
         const Unique u = unique(round(x));
         return Tensors{u.values, u.inverse, u.counts};
       },
       ranks()},
      {"unfold",
       [](Tensor x) {
         return Tensors{unfold(x, 0, 2, 1), unfold(x, -1, 1, 2)};
       },
       ranks(1, kMaxRank - 1)},
      {"pixel_shuffle",
       [](Tensor x) { return pixel_shuffle(x, 2); },
       {{{.shape = {4, 2, 3}}}, {{.shape = {2, 8, 2, 1}}}, {{.shape = {2, 1, 4, 3, 2}}}}},
      {"pixel_unshuffle",
       [](Tensor x) { return pixel_unshuffle(x, 2); },
       {{{.shape = {1, 4, 2}}}, {{.shape = {2, 3, 2, 4}}}, {{.shape = {2, 1, 1, 4, 2}}}}},
      MOVED(view, 0, view(x, x.shape())),
      MOVED(reshape, 0, reshape(x, {-1, 1})),
      MOVED(flatten, 0, flatten(x)),
      MOVED(transpose, 1, transpose(x, 0, -1)),
      MOVED(swapaxes, 1, swapaxes(x, -1, 0)),
      MOVED(movedim, 1, movedim(x, 0, -1)),
      MOVED(slice, 1, slice(x, 0, 1, 3, 2)),
      MOVED(select, 1, select(x, 0, -1)),
      MOVED(slice_scatter, 1, slice_scatter(x, x.slice(0, 0, 1) * 2, 0, 1, 2)),
      MOVED(select_scatter, 1, select_scatter(x, x.select(0, 0) * 2, 0, -1)),
      MOVED(narrow, 1, narrow(x, 0, 1, 2)),
      MOVED(diagonal, 2, Tensors{diagonal(x), diagonal(x, 1, -1, 0)}),
      MOVED(split, 1, split(x, 2)),
      MOVED(chunk, 1, chunk(x, 2, -1)),
      MOVED(unbind, 1, unbind(x)),
      MOVED(flip, 1, Tensors{flip(x, {0}), flip(x, {-1})}),
      MOVED(roll, 1, Tensors{roll(x, {1}, {0}), roll(x, {2})}),
      MOVED(tril, 2, tril(x)),
      MOVED(triu, 2, triu(x, 1)),
      MOVED(nonzero, 1, nonzero(round(x))),
      {"permute",
       [](Tensor x) {
         std::vector<int> axes;
         for (int i = 0; i < x.rank(); ++i) axes.push_back((i + 1) % x.rank());
         return permute(x, axes);
       },
       ranks()},
      {"expand",
       [](Tensor x) {
         Shape to = x.shape();
         to.insert(0, 2);
         return expand(x, to);
       },
       ranks(0, kMaxRank - 1)},
      {"squeeze",
       [](Tensor x) {
         return Tensors{squeeze(x), squeeze(x.unsqueeze(0), 0)};
       },
       ranks(0, kMaxRank - 1)},
      {"unsqueeze", [](Tensor x) { return unsqueeze(x, -1); }, ranks(0, kMaxRank - 1)},
      {"stack",
       [](Tensor x) {
         return stack({x, x}, -1);
       },
       ranks(0, kMaxRank - 1)},
      {"cat",
       [](Tensor x) {
         return Tensors{cat({x, x}, 0), cat({x, x}, -1)};
       },
       ranks(1)},
      {"repeat",
       [](Tensor x) {
         Shape twice = Shape::filled(x.rank(), 2);
         return repeat(x, twice);
       },
       ranks()},
      {"repeat_interleave",
       [](Tensor x, Tensor repeats) {
         return Tensors{repeat_interleave(x, 2), repeat_interleave(x, 2, -1),
                        repeat_interleave(x, repeats, 0)};
       },
       {{{.shape = {3}}, index_of({3}, 3)}, {{.shape = {3, 2, 4}}, index_of({3}, 3)}}},
      {"pad",
       [](Tensor x) {
         return Tensors{pad(x, {1, 2}), pad(x, {1, 0}, PadMode::replicate),
                        pad(x, {0, 1}, PadMode::circular)};
       },
       ranks(1)},
      {"index_select", [](Tensor x, Tensor i) { return index_select(x, 0, i); }, selected(false)},
      {"index_add", [](Tensor x, Tensor i, Tensor s) { return index_add(x, 0, i, s, 0.5); },
       selected(true)},
      {"gather", [](Tensor x, Tensor i) { return gather(x, 0, i); }, indexed(5, false)},
      {"take_along", [](Tensor x, Tensor i) { return take_along(x, i, 0); }, indexed(5, false)},
      {"scatter_add", [](Tensor x, Tensor i, Tensor s) { return scatter_add(x, 0, i, s); },
       indexed(5, true)},
      // One index a column, so that none repeats.
      {"scatter",
       [](Tensor x, Tensor i, Tensor s) {
         return Tensors{scatter(x, 0, i, s), scatter(x, 0, i, 1.0)};
       },
       indexed(1, true)},
      {"masked_select",
       [](Tensor x, Tensor m) { return masked_select(x, m); },
       {{{.shape = {4}}, {.shape = {4}, .dtype = bool_}},
        {{.shape = {3, 1}}, {.shape = {4}, .dtype = bool_}},
        {{.shape = {3, 2, 4}}, {.shape = {3, 2, 4}, .dtype = bool_}}}},
      {"one_hot",
       [](Tensor i) {
         return Tensors{one_hot(i, 5), one_hot(i)};
       },
       {{index_of({}, 5)}, {index_of({4}, 5)}, {index_of({3, 2}, 5)}, {index_of({2, 3, 2}, 5)}}},
  };
}

#undef REDUCTION
#undef EXTREMUM
#undef ALONG
#undef MOVED

}  // namespace brim::contract
