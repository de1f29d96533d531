// Reading and writing at positions given by a tensor.
#include <brim/ops/embedding.h>
#include <brim/ops/index.h>
#include <brim/ops/sort.h>

#include "op_table/op_table.h"

namespace brim::tests {
namespace {

std::optional<int64_t> padding_idx(const Call& c) {
  return c.has("padding_idx") ? std::optional(c.get<int64_t>("padding_idx")) : std::nullopt;
}

}  // namespace

OpTable index_ops() {
  return {
      {"index_select", [](const Call& c) { return index_select(c[0], c.integer("dim"), c[1]); }},
      {"gather", [](const Call& c) { return gather(c[0], c.integer("dim"), c[1]); }},
      {"take_along", [](const Call& c) { return take_along(c[0], c[1], c.integer("dim")); }},
      {"scatter", [](const Call& c) { return scatter(c[0], c.integer("dim"), c[1], c[2]); }},
      {"scatter_value",
       [](const Call& c) { return scatter(c[0], c.integer("dim"), c[1], c.number("value")); }},
      {"scatter_add",
       [](const Call& c) { return scatter_add(c[0], c.integer("dim"), c[1], c[2]); }},
      {"index_add",
       [](const Call& c) {
         return index_add(c[0], c.integer("dim"), c[1], c[2], c.number("alpha", 1));
       }},
      {"masked_select", [](const Call& c) { return masked_select(c[0], c[1]); }},
      {"nonzero", [](const Call& c) { return nonzero(c[0]); }},
      {"unique",
       [](const Call& c) {
         const Unique u = unique(c[0]);
         return Outputs{u.values, u.inverse, u.counts};
       }},
      {"one_hot",
       [](const Call& c) { return one_hot(c[0], c.get<int64_t>("num_classes"), c.dtype(i64)); }},
      {"embedding", [](const Call& c) { return embedding(c[0], c[1], padding_idx(c)); }},
  };
}

}  // namespace brim::tests
