// Views, joining, splitting, repeating, padding, indexing, sorting and tensors made from numbers
// against PyTorch.
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/shape.h>
#include <brim/ops/sort.h>

#include "golden/golden_case.h"

namespace golden {
namespace {

Outputs split(const Call& c) {
  if (c.attrs.at("split_size").is_array())
    return brim::split(c[0], c.get<std::vector<int64_t>>("split_size"), c.integer("dim"));
  return brim::split(c[0], c.get<int64_t>("split_size"), c.integer("dim"));
}

const Table kShape = {
    {"reshape", [](const Call& c) { return c[0].reshape(c.shape("shape")); }},
    {"permute", [](const Call& c) { return c[0].permute(c.axes("dims")); }},
    {"transpose",
     [](const Call& c) { return c[0].transpose(c.integer("dim0"), c.integer("dim1")); }},
    {"expand", [](const Call& c) { return c[0].expand(c.shape("shape")); }},
    {"repeat", [](const Call& c) { return brim::repeat(c[0], c.shape("repeats")); }},
    {"repeat_interleave",
     [](const Call& c) {
       return brim::repeat_interleave(c[0], c.get<int64_t>("repeats"), c.axis());
     }},
    {"squeeze",
     [](const Call& c) { return c.has("dim") ? c[0].squeeze(c.integer("dim")) : c[0].squeeze(); }},
    {"unsqueeze", [](const Call& c) { return c[0].unsqueeze(c.integer("dim")); }},
    {"flatten",
     [](const Call& c) { return c[0].flatten(c.integer("start_dim"), c.integer("end_dim")); }},
    {"slice",
     [](const Call& c) {
       return c[0].slice(c.integer("dim"), c.integer("start"), c.integer("end"), c.integer("step"));
     }},
    {"select", [](const Call& c) { return c[0].select(c.integer("dim"), c.integer("index")); }},
    {"flip", [](const Call& c) { return brim::flip(c[0], c.axes("dims")); }},
    {"pad",
     [](const Call& c) {
       return brim::pad(c[0], c.get<std::vector<int64_t>>("pad"), brim::PadMode::constant,
                        c.number("value"));
     }},
    {"roll",
     [](const Call& c) {
       return brim::roll(c[0], c.get<std::vector<int64_t>>("shifts"), c.axes("dims"));
     }},
    {"cat", [](const Call& c) { return brim::cat(c.in, c.integer("dim")); }},
    {"stack", [](const Call& c) { return brim::stack(c.in, c.integer("dim")); }},
    {"split", split},
};

const Table kIndex = {
    {"index_select",
     [](const Call& c) { return brim::index_select(c[0], c.integer("dim"), c[1]); }},
    {"gather", [](const Call& c) { return brim::gather(c[0], c.integer("dim"), c[1]); }},
    {"scatter_add",
     [](const Call& c) { return brim::scatter_add(c[0], c.integer("dim"), c[1], c[2]); }},
};

Outputs arange(const Call& c) {
  const brim::TensorOptions options{.dtype = brim::parse_dtype(c.text("dtype"))};
  return brim::arange(c.number("start"), c.number("end"), c.number("step"), options);
}

const Table kSort = {
    {"sort",
     [](const Call& c) { return both(brim::sort(c[0], c.integer("dim"), c.flag("descending"))); }},
    {"topk",
     [](const Call& c) {
       return both(brim::topk(c[0], c.get<int64_t>("k"), c.integer("dim"), c.flag("largest")));
     }},
};

const Table kCreate = {
    {"arange", arange},
    {"eye",
     [](const Call& c) { return brim::eye(c.integer("n"), c.integer("m"), {.dtype = brim::f64}); }},
    {"full",
     [](const Call& c) {
       return brim::full(c.shape("shape"), c.number("value"),
                         {.dtype = brim::parse_dtype(c.text("dtype"))});
     }},
};

TEST(Golden, Shape) { run_family("shape", kShape); }
TEST(Golden, Index) { run_family("index", kIndex); }
TEST(Golden, Sort) { run_family("sort", kSort); }
TEST(Golden, Create) { run_family("create", kCreate); }

}  // namespace
}  // namespace golden
