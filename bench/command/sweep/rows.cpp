// Reductions, running sums, softmax and normalisation: over everything, over rows, over columns and
// over the channels of images.
#include <brim/ops/create.h>
#include <brim/ops/dropout.h>
#include <brim/ops/norm.h>
#include <brim/ops/reduce.h>
#include <brim/ops/softmax.h>

#include "bench/command/sweep/operands.h"

namespace brim::command {
namespace {

const std::vector<std::string> kImages = {"nchw", "nhwc"};
const std::vector<std::string> kRowLayouts = {"rows-1000", "rows-256", "rows-10"};
const std::vector<std::string> kReduced = {"all", "rows-1000", "rows-10", "columns"};

std::vector<int> axes_of(const std::string& layout) {
  if (layout == "all") return {};
  return {layout == "columns" ? 0 : 1};
}

struct ReduceOp {
  const char* name;
  Tensor (*function)(const Tensor&, const std::vector<int>& axes);
  Values operand = Values::normal;
  bool trains = false;
};

std::optional<int> axis_of(const std::vector<int>& axes) {
  return axes.empty() ? std::nullopt : std::optional<int>(axes[0]);
}

const ReduceOp kReduceOps[] = {
    {"sum", [](const Tensor& x, const std::vector<int>& axes) { return sum(x, axes); },
     Values::normal, true},
    {"mean", [](const Tensor& x, const std::vector<int>& axes) { return mean(x, axes); },
     Values::normal, true},
    {"prod", [](const Tensor& x, const std::vector<int>& axes) { return prod(x, axes); },
     Values::near_one},
    {"amax", [](const Tensor& x, const std::vector<int>& axes) { return amax(x, axes); },
     Values::normal, true},
    {"amin", [](const Tensor& x, const std::vector<int>& axes) { return amin(x, axes); }},
    {"argmax",
     [](const Tensor& x, const std::vector<int>& axes) { return argmax(x, axis_of(axes)); }},
    {"argmin",
     [](const Tensor& x, const std::vector<int>& axes) { return argmin(x, axis_of(axes)); }},
    {"var", [](const Tensor& x, const std::vector<int>& axes) { return var(x, axes); },
     Values::normal, true},
    {"std", [](const Tensor& x, const std::vector<int>& axes) { return stddev(x, axes); }},
    {"norm", [](const Tensor& x, const std::vector<int>& axes) { return norm(x, 2, axes); },
     Values::normal, true},
    {"norm-1", [](const Tensor& x, const std::vector<int>& axes) { return norm(x, 1, axes); }},
    {"logsumexp", [](const Tensor& x, const std::vector<int>& axes) { return logsumexp(x, axes); },
     Values::normal, true},
    {"any", [](const Tensor& x, const std::vector<int>& axes) { return any(x, axes); }},
    {"all", [](const Tensor& x, const std::vector<int>& axes) { return all(x, axes); },
     Values::positive},
};

void add_reductions(std::vector<SweepOp>& ops) {
  for (const ReduceOp& op : kReduceOps)
    ops.push_back({op.name, "reduction", kReduced, kFloats, [op](const SweepCase& c) {
                     return forward([op, axes = axes_of(c.layout)](
                                        const Tensor& x) { return op.function(x, axes); },
                                    operand(c, op.operand));
                   }});
  for (const ReduceOp& op : kReduceOps)
    if (op.trains)
      ops.push_back({std::string(op.name) + "-train",
                     "train",
                     {"all", "rows-1000", "columns"},
                     kFloats,
                     [op](const SweepCase& c) {
                       return training([op, axes = axes_of(c.layout)](
                                           const Tensor& x) { return op.function(x, axes); },
                                       operand(c, op.operand).set_requires_grad());
                     }});
  ops.push_back(
      {"max", "reduction", {"rows-1000", "rows-10", "columns"}, kFloats, [](const SweepCase& c) {
         return forward([axis = axes_of(c.layout)[0]](const Tensor& x) { return max(x, axis); },
                        operand(c));
       }});
  ops.push_back({"cumsum",
                 "reduction",
                 {"dense", "rows-1000", "rows-10", "columns"},
                 kFloats,
                 [](const SweepCase& c) {
                   const int axis = c.layout == "dense" || c.layout == "columns" ? 0 : 1;
                   return forward([axis](const Tensor& x) { return cumsum(x, axis); }, operand(c));
                 }});
}

void add_softmax(std::vector<SweepOp>& ops) {
  for (const auto& [name, function] :
       {std::pair{"softmax", &softmax}, {"log_softmax", &log_softmax}})
    add_with_training(ops, name, "norm", {"rows-1000", "rows-10", "columns", "nchw", "nhwc"},
                      [function = function](const SweepCase& c, bool trains) {
                        const int axis = c.layout == "columns" ? 0 : 1;
                        return run_either(
                            trains, [function, axis](const Tensor& x) { return function(x, axis); },
                            operand(c).set_requires_grad());
                      });
}

/// `by_batch`: normalised by the batch's statistics. Weights and running statistics are f32, beside
/// activations of 16 bits too.
SweepRun batch_normalized(const SweepCase& c, bool trains, bool by_batch) {
  const Tensor x = operand(c).set_requires_grad();
  const Shape channels{x.size(1)};
  return run_either(
      trains,
      [by_batch](const Tensor& a, const Tensor& w, const Tensor& b, const Tensor& mean,
                 const Tensor& variance) {
        return batch_norm(a, w, b, mean, variance, {.training = by_batch});
      },
      x, leaf(channels, f32), leaf(channels, f32), zeros(channels), ones(channels));
}

void add_norms(std::vector<SweepOp>& ops) {
  add_with_training(ops, "layer_norm", "norm", kRowLayouts, [](const SweepCase& c, bool trains) {
    const Tensor x = operand(c).set_requires_grad();
    const Shape width{x.size(1)};
    return run_either(
        trains,
        [width](const Tensor& a, const Tensor& w, const Tensor& b) {
          return layer_norm(a, width, w, b);
        },
        x, leaf(width, c.dtype), leaf(width, c.dtype));
  });
  add_with_training(ops, "rms_norm", "norm", kRowLayouts, [](const SweepCase& c, bool trains) {
    const Tensor x = operand(c).set_requires_grad();
    const Shape width{x.size(1)};
    return run_either(
        trains, [width](const Tensor& a, const Tensor& w) { return rms_norm(a, width, w); }, x,
        leaf(width, c.dtype));
  });
  add_with_training(ops, "group_norm", "norm", kImages, [](const SweepCase& c, bool trains) {
    const Tensor x = operand(c).set_requires_grad();
    return run_either(
        trains,
        [](const Tensor& a, const Tensor& w, const Tensor& b) { return group_norm(a, 8, w, b); }, x,
        leaf({x.size(1)}, c.dtype), leaf({x.size(1)}, c.dtype));
  });
  add_with_training(ops, "batch_norm", "norm", kImages, [](const SweepCase& c, bool trains) {
    return batch_normalized(c, trains, true);
  });
  ops.push_back({"batch_norm-eval", "norm", kImages, kFloats,
                 [](const SweepCase& c) { return batch_normalized(c, false, false); }});
  add_with_training(ops, "dropout", "norm", {"dense"}, [](const SweepCase& c, bool trains) {
    return run_either(
        trains, [](const Tensor& x) { return dropout(x, 0.5); }, operand(c).set_requires_grad());
  });
}

}  // namespace

std::vector<SweepOp> sweep_rows() {
  std::vector<SweepOp> ops;
  for (const auto add : {add_reductions, add_softmax, add_norms}) add(ops);
  return ops;
}

}  // namespace brim::command
