// What moves numbers: copies, casts, joining and repeating, reading and writing at indices, order.
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/embedding.h>
#include <brim/ops/index.h>
#include <brim/ops/shape.h>
#include <brim/ops/sort.h>

#include <algorithm>

#include "bench/command/sweep/operands.h"

namespace brim::command {
namespace {

const std::vector<DType> kCopied = {f32, u8, bf16};

void add_copies(std::vector<SweepOp>& ops) {
  ops.push_back(
      {"contiguous", "copy", {"transposed", "strided", "nhwc"}, kCopied, [](const SweepCase& c) {
         return forward([](const Tensor& x) { return x.contiguous(); }, operand(c));
       }});
  ops.push_back({"to-nhwc", "copy", {"nchw"}, kCopied, [](const SweepCase& c) {
                   return forward([](const Tensor& x) { return x.to(MemoryFormat::nhwc); },
                                  operand(c));
                 }});
  ops.push_back({"clone", "copy", kLayouts, kCopied, [](const SweepCase& c) {
                   return forward([](const Tensor& x) { return x.clone(); }, operand(c));
                 }});
  for (const auto& [from, to] : {std::pair{f32, bf16},
                                 {bf16, f32},
                                 {f32, f16},
                                 {f16, f32},
                                 {f32, i64},
                                 {i64, f32},
                                 {f32, u8},
                                 {u8, f32},
                                 {f32, bool_}})
    ops.push_back({"cast-" + std::string(name(from)) + "-" + std::string(name(to)),
                   "copy",
                   kLayouts,
                   {from},
                   [to = to](const SweepCase& c) {
                     return forward([to](const Tensor& x) { return x.to(to); },
                                    operand(c, Values::positive));
                   }});
  // Pictures as decoders leave them -> what networks read.
  ops.push_back({"u8-images-to-f32", "copy", {"nhwc"}, {u8}, [](const SweepCase& c) {
                   const Tensor x = values(image_shape(c.elements, 3), u8).to(MemoryFormat::nhwc);
                   return forward([](const Tensor& a) { return a.to(f32).contiguous(); }, x);
                 }});
}

/// An op of one tensor; the layouts are those of operand().
void add_move(std::vector<SweepOp>& ops, const char* op_name,
              const std::vector<std::string>& layouts, Tensor (*function)(const Tensor&)) {
  ops.push_back({op_name, "copy", layouts, kCopied,
                 [function](const SweepCase& c) { return forward(function, operand(c)); }});
}

void add_joins(std::vector<SweepOp>& ops) {
  const auto join = [&ops](const char* op_name, const std::vector<std::string>& layouts,
                           Tensor (*function)(const std::vector<Tensor>&, int axis)) {
    ops.push_back({op_name, "copy", layouts, kCopied, [function](const SweepCase& c) {
                     SweepCase part = c;
                     part.elements = std::max<int64_t>(1, c.elements / 4);
                     const int axis = c.layout == "dense" ? 0 : 1;
                     return forward(
                         [function, axis](const Tensor& a, const Tensor& b, const Tensor& d,
                                          const Tensor& e) {
                           return function({a, b, d, e}, axis);
                         },
                         operand(part), operand(part), operand(part), operand(part));
                   }});
  };
  join("cat", {"dense", "rows-256", "rows-10", "nchw", "nhwc"}, cat);
  join("stack", {"dense", "rows-256", "rows-10"}, stack);
}

void add_moves(std::vector<SweepOp>& ops) {
  add_move(ops, "flip", {"dense", "rows-256", "nchw"},
           [](const Tensor& x) { return flip(x, {x.rank() - 1}); });
  add_move(ops, "roll", {"rows-256", "rows-10"}, [](const Tensor& x) { return roll(x, {3}, {1}); });
  add_move(ops, "repeat", {"rows-256", "rows-10"}, [](const Tensor& x) {
    return repeat(x, {1, 4});
  });
  add_move(ops, "repeat_interleave", {"rows-256", "rows-10"},
           [](const Tensor& x) { return repeat_interleave(x, 2, 1); });
  add_move(ops, "tril", {"rows-1000"}, [](const Tensor& x) { return tril(x); });
  add_move(ops, "pixel_shuffle", {"nchw"}, [](const Tensor& x) { return pixel_shuffle(x, 2); });
  add_move(ops, "pixel_unshuffle", {"nchw"}, [](const Tensor& x) { return pixel_unshuffle(x, 2); });
  add_move(ops, "pad", {"nchw", "nhwc", "rows-256"}, [](const Tensor& x) {
    return pad(x, {1, 1, 1, 1});
  });
  add_move(ops, "pad-reflect", {"nchw"}, [](const Tensor& x) {
    return pad(x, {1, 1, 1, 1}, PadMode::reflect);
  });
}

/// Of as many rows of x as there are, in no order and with repeats.
Tensor row_index(const Tensor& x) { return hashed({x.size(0)}, x.size(0)); }

void add_reads(std::vector<SweepOp>& ops) {
  ops.push_back({"index_select", "index", {"rows-256", "rows-10"}, kCopied, [](const SweepCase& c) {
                   const Tensor x = operand(c);
                   return forward(
                       [](const Tensor& a, const Tensor& i) { return index_select(a, 0, i); }, x,
                       row_index(x));
                 }});
  ops.push_back({"gather", "index", {"rows-256", "columns"}, kFloats, [](const SweepCase& c) {
                   const Tensor x = operand(c);
                   const int axis = c.layout == "columns" ? 0 : 1;
                   return forward(
                       [axis](const Tensor& a, const Tensor& i) { return gather(a, axis, i); }, x,
                       hashed(x.shape(), x.size(axis)));
                 }});
  add_with_training(
      ops, "embedding", "index", {"rows-256", "rows-10"}, [](const SweepCase& c, bool trains) {
        const Shape shape = operand_shape(c.layout, c.elements);
        return run_either(
            trains, [](const Tensor& ids, const Tensor& w) { return embedding(ids, w); },
            hashed({shape[0]}, 1000), leaf({1000, shape[1]}, c.dtype));
      });
  ops.push_back({"masked_select", "index", {"dense"}, kFloats, [](const SweepCase& c) {
                   return forward(masked_select, operand(c), hashed({c.elements}, 2).to(bool_));
                 }});
  ops.push_back({"nonzero", "index", {"dense"}, kF32, [](const SweepCase& c) {
                   return forward(nonzero, hashed({c.elements}, 2).to(f32));
                 }});
  ops.push_back({"one_hot", "index", {"dense"}, {i64}, [](const SweepCase& c) {
                   const int64_t ids = std::max<int64_t>(1, c.elements / 100);
                   return forward([](const Tensor& x) { return one_hot(x, 100); },
                                  hashed({ids}, 100));
                 }});
}

void add_writes(std::vector<SweepOp>& ops) {
  const auto add = [&ops](const char* op_name,
                          Tensor (*function)(const Tensor&, int, const Tensor&, const Tensor&)) {
    ops.push_back(
        {op_name, "index", {"rows-256", "columns"}, kFloats, [function](const SweepCase& c) {
           const Tensor x = operand(c);
           const int axis = c.layout == "columns" ? 0 : 1;
           return forward([function, axis](const Tensor& a, const Tensor& i,
                                           const Tensor& b) { return function(a, axis, i, b); },
                          x, hashed(x.shape(), x.size(axis)), operand(c));
         }});
  };
  add("scatter", scatter);
  add("scatter_add", scatter_add);
  ops.push_back({"index_add", "index", {"rows-256", "rows-10"}, kFloats, [](const SweepCase& c) {
                   const Tensor x = operand(c);
                   return forward([](const Tensor& a, const Tensor& i,
                                     const Tensor& b) { return index_add(a, 0, i, b); },
                                  x, row_index(x), operand(c));
                 }});
}

void add_orders(std::vector<SweepOp>& ops) {
  const std::vector<std::string> layouts = {"dense", "rows-1000", "rows-10"};
  ops.push_back({"sort", "order", layouts, {f32, i64}, [](const SweepCase& c) {
                   return forward([](const Tensor& x) { return sort(x); }, operand(c));
                 }});
  ops.push_back({"argsort", "order", layouts, kF32, [](const SweepCase& c) {
                   return forward([](const Tensor& x) { return argsort(x); }, operand(c));
                 }});
  ops.push_back({"topk", "order", layouts, kFloats, [](const SweepCase& c) {
                   return forward([](const Tensor& x) { return topk(x, 5); }, operand(c));
                 }});
  ops.push_back({"unique", "order", {"dense"}, {i64, f32}, [](const SweepCase& c) {
                   return forward(unique, hashed({c.elements}, 1000).to(c.dtype));
                 }});
}

}  // namespace

std::vector<SweepOp> sweep_moves() {
  std::vector<SweepOp> ops;
  for (const auto add : {add_copies, add_joins, add_moves, add_reads, add_writes, add_orders})
    add(ops);
  return ops;
}

}  // namespace brim::command
