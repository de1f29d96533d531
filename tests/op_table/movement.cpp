// Views, parts, joining, repeating and padding.
#include <brim/ops/shape.h>

#include "op_table/op_table.h"

namespace brim::tests {
namespace {

PadMode pad_mode(const std::string& name) {
  return name == "reflect"     ? PadMode::reflect
         : name == "replicate" ? PadMode::replicate
         : name == "circular"  ? PadMode::circular
                               : PadMode::constant;
}

Outputs split_of(const Call& c) {
  if (c.attrs.at("split_size").is_array())
    return split(c[0], c.integers("split_size"), c.integer("dim"));
  return split(c[0], c.get<int64_t>("split_size"), c.integer("dim"));
}

/// Repeats: a number, a list or a second input.
Outputs repeat_interleave_of(const Call& c) {
  if (c.in.size() > 1) return repeat_interleave(c[0], c[1], c.axis());
  if (c.attrs.at("repeats").is_array())
    return repeat_interleave(c[0], c.integers("repeats"), c.axis());
  return repeat_interleave(c[0], c.get<int64_t>("repeats"), c.axis());
}

}  // namespace

OpTable movement_ops() {
  return {
      {"view", [](const Call& c) { return view(c[0], c.shape("shape")); }},
      {"reshape", [](const Call& c) { return reshape(c[0], c.shape("shape")); }},
      {"flatten",
       [](const Call& c) { return flatten(c[0], c.integer("start_dim"), c.integer("end_dim")); }},
      {"permute",
       [](const Call& c) { return permute(c[0], std::span<const int>(c.axes("dims"))); }},
      {"transpose",
       [](const Call& c) { return transpose(c[0], c.integer("dim0"), c.integer("dim1")); }},
      {"expand", [](const Call& c) { return expand(c[0], c.shape("shape")); }},
      {"squeeze",
       [](const Call& c) {
         return c.has("dim") ? squeeze(c[0], c.integer("dim")) : squeeze(c[0]);
       }},
      {"unsqueeze", [](const Call& c) { return unsqueeze(c[0], c.integer("dim")); }},
      {"slice",
       [](const Call& c) {
         return slice(c[0], c.integer("dim"), c.get<int64_t>("start"), c.get<int64_t>("end"),
                      c.get<int64_t>("step"));
       }},
      {"select",
       [](const Call& c) { return select(c[0], c.integer("dim"), c.get<int64_t>("index")); }},
      {"movedim",
       [](const Call& c) { return movedim(c[0], c.integer("source"), c.integer("destination")); }},
      {"narrow",
       [](const Call& c) {
         return narrow(c[0], c.integer("dim"), c.get<int64_t>("start"), c.get<int64_t>("length"));
       }},
      {"diagonal",
       [](const Call& c) {
         return diagonal(c[0], c.get<int64_t>("offset"), c.integer("dim1"), c.integer("dim2"));
       }},
      {"slice_scatter",
       [](const Call& c) {
         return slice_scatter(c[0], c[1], c.integer("dim"), c.get<int64_t>("start"),
                              c.get<int64_t>("end"), c.get<int64_t>("step"));
       }},
      {"select_scatter",
       [](const Call& c) {
         return select_scatter(c[0], c[1], c.integer("dim"), c.get<int64_t>("index"));
       }},
      {"unfold",
       [](const Call& c) {
         return unfold(c[0], c.integer("dimension"), c.get<int64_t>("size"),
                       c.get<int64_t>("step"));
       }},
      {"pixel_shuffle",
       [](const Call& c) { return pixel_shuffle(c[0], c.get<int64_t>("upscale_factor")); }},
      {"pixel_unshuffle",
       [](const Call& c) { return pixel_unshuffle(c[0], c.get<int64_t>("downscale_factor")); }},
      {"contiguous", [](const Call& c) { return c[0].contiguous(); }},
      {"clone", [](const Call& c) { return c[0].clone(); }},

      {"split", split_of},
      {"chunk",
       [](const Call& c) { return chunk(c[0], c.get<int64_t>("chunks"), c.integer("dim")); }},
      {"unbind", [](const Call& c) { return unbind(c[0], c.integer("dim")); }},

      {"cat", [](const Call& c) { return cat(c.in, c.integer("dim")); }},
      {"stack", [](const Call& c) { return stack(c.in, c.integer("dim")); }},
      {"repeat", [](const Call& c) { return repeat(c[0], c.shape("repeats")); }},
      {"repeat_interleave", repeat_interleave_of},
      {"flip", [](const Call& c) { return flip(c[0], c.axes("dims")); }},
      {"roll", [](const Call& c) { return roll(c[0], c.integers("shifts"), c.axes("dims")); }},
      {"tril", [](const Call& c) { return tril(c[0], c.get<int64_t>("diagonal")); }},
      {"triu", [](const Call& c) { return triu(c[0], c.get<int64_t>("diagonal")); }},
      {"pad",
       [](const Call& c) {
         return pad(c[0], c.integers("pad"), pad_mode(c.get<std::string>("mode", "constant")),
                    c.number("value", 0));
       }},
  };
}

}  // namespace brim::tests
