#include "backend/cpu/reduce/reduce_plan.h"

#include "backend/cpu/elementwise/loop.h"

namespace brim::cpu {

ReducePlan ReducePlan::make(const Tensor& x, const Tensor& y) {
  // Reduced dimensions have output stride 0, so they come first.
  const Loop<2> loop = make_loop<2>(x.shape(), {broadcast_strides(y, x.shape()), x.strides()});
  ReducePlan plan;
  for (int d = 0; d < loop.rank; ++d)
    (loop.stride[0][d] == 0 ? plan.reduced : plan.kept).push(loop.size[d], loop.stride[1][d]);
  if (plan.reduced.rank == 0) plan.reduced.push(1, 0);
  if (plan.kept.rank == 0) plan.kept.push(1, 0);
  const int64_t columns = plan.kept.size[0], count = plan.reduced.numel;
  plan.by_columns = columns > 1 && plan.kept.stride[0] != 0 &&
                    (count == 1 || plan.kept.stride[0] < plan.reduced.stride[0]);
  if (plan.by_columns) {
    plan.tile = std::min(columns, kReduceTile);
    plan.units = plan.kept.numel / columns * ((columns + plan.tile - 1) / plan.tile);
  } else {
    plan.tile = std::clamp<int64_t>(8192 / count, 1, std::min(plan.kept.numel, kReduceTile));
    plan.units = (plan.kept.numel + plan.tile - 1) / plan.tile;
  }
  constexpr int64_t kPart = 16384, kEnoughUnits = 16, kMaxParts = 64;
  if (plan.units < kEnoughUnits)
    plan.parts = std::clamp<int64_t>(std::min(count * plan.tile / kPart, count), 1, kMaxParts);
  return plan;
}

void reduce(const ReduceSteps& steps, const Context& context, const Tensor& x, Tensor& y,
            double param) {
  reduce_to(y.raw(), steps, context, x, y, nullptr, param);
}

void reduce_to(void* to, const ReduceSteps& steps, const Context& context, const Tensor& x,
               const Tensor& y, const double* center, double param) {
  if (x.numel() == 0) return steps.nothing(param, y.numel(), to);
  const ReducePlan plan = ReducePlan::make(x, y);
  const int64_t count = plan.reduced.numel, parts = plan.parts, tile = plan.tile;
  const int64_t run = plan.by_columns ? plan.kept.size[0] : plan.kept.numel;
  const int64_t tiles = (run + tile - 1) / tile;
  const auto accumulate = plan.by_columns ? steps.columns : steps.rows;
  const auto place = [&](int64_t unit, int64_t& first, int64_t& width) {
    if (tiles == 1) {
      first = unit * run;
      width = run;
    } else {
      const int64_t at = unit % tiles * tile;
      first = unit / tiles * run + at;
      width = std::min(tile, run - at);
    }
  };
  const int64_t grain =
      std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, count * tile / parts));
  if (parts == 1) {
    parallel_for(plan.units, grain, [&](int64_t begin, int64_t end) {
      double total[kReduceTile];
      for (; begin < end; ++begin) {
        int64_t first, width;
        place(begin, first, width);
        accumulate(plan, x.raw(), first, width, 0, count, center, total);
        steps.finish(total, first, width, param, to);
      }
    });
    return;
  }
  const Workspace space =
      context.workspace(static_cast<size_t>(plan.units * parts * tile) * sizeof(double));
  double* partial = space.as<double>();
  parallel_for(plan.units * parts, grain, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      int64_t first, width;
      place(begin / parts, first, width);
      const int64_t part = begin % parts;
      accumulate(plan, x.raw(), first, width, count * part / parts, count * (part + 1) / parts,
                 center, partial + begin * tile);
    }
  });
  for (int64_t unit = 0; unit < plan.units; ++unit) {
    int64_t first, width;
    place(unit, first, width);
    double* total = partial + unit * parts * tile;
    for (int64_t p = 1; p < parts; ++p) steps.combine(total, total + p * tile, width);
    steps.finish(total, first, width, param, to);
  }
}

}  // namespace brim::cpu
