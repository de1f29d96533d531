// Reductions, cumulative sums, softmax, and order along an axis.
#include <brim/ops/reduce.h>
#include <brim/ops/softmax.h>
#include <brim/ops/sort.h>

#include "op_table/op_table.h"

namespace brim::tests {

OpTable reduction_ops() {
  return {
      {"sum", [](const Call& c) { return sum(c[0], c.axes(), c.flag("keepdim")); }},
      {"mean", [](const Call& c) { return mean(c[0], c.axes(), c.flag("keepdim")); }},
      {"prod", [](const Call& c) { return prod(c[0], c.axes(), c.flag("keepdim")); }},
      {"amax", [](const Call& c) { return amax(c[0], c.axes(), c.flag("keepdim")); }},
      {"amin", [](const Call& c) { return amin(c[0], c.axes(), c.flag("keepdim")); }},
      {"max", [](const Call& c) { return both(max(c[0], c.integer("dim"), c.flag("keepdim"))); }},
      {"min", [](const Call& c) { return both(min(c[0], c.integer("dim"), c.flag("keepdim"))); }},
      {"max_all", [](const Call& c) { return max(c[0]); }},
      {"min_all", [](const Call& c) { return min(c[0]); }},
      {"argmax", [](const Call& c) { return argmax(c[0], c.axis(), c.flag("keepdim")); }},
      {"argmin", [](const Call& c) { return argmin(c[0], c.axis(), c.flag("keepdim")); }},
      {"var",
       [](const Call& c) {
         return var(c[0], c.axes(), c.number("correction"), c.flag("keepdim"));
       }},
      {"stddev",
       [](const Call& c) {
         return stddev(c[0], c.axes(), c.number("correction"), c.flag("keepdim"));
       }},
      {"norm",
       [](const Call& c) { return norm(c[0], c.number("p", 2), c.axes(), c.flag("keepdim")); }},
      {"logsumexp", [](const Call& c) { return logsumexp(c[0], c.axes(), c.flag("keepdim")); }},
      {"any", [](const Call& c) { return any(c[0], c.axes(), c.flag("keepdim")); }},
      {"all", [](const Call& c) { return all(c[0], c.axes(), c.flag("keepdim")); }},
      {"cumsum", [](const Call& c) { return cumsum(c[0], c.integer("dim")); }},
      {"softmax", [](const Call& c) { return softmax(c[0], c.integer("dim")); }},
      {"log_softmax", [](const Call& c) { return log_softmax(c[0], c.integer("dim")); }},
      {"sort",
       [](const Call& c) { return both(sort(c[0], c.integer("dim"), c.flag("descending"))); }},
      {"argsort",
       [](const Call& c) { return argsort(c[0], c.integer("dim"), c.flag("descending")); }},
      {"topk",
       [](const Call& c) {
         return both(topk(c[0], c.get<int64_t>("k"), c.integer("dim"), c.flag("largest")));
       }},
  };
}

}  // namespace brim::tests
