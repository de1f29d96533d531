// Values and their layouts, the table of operators, outputs, and the arena.
#include "deploy/engine/lowering.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include <brim/deploy/engine.h>

#include "core/hash.h"
#include "plan/memory.h"
#include "rt/step.h"

namespace brim::deploy {
namespace {

std::map<std::string, LowerOperator, std::less<>>& operators() {
  static std::map<std::string, LowerOperator, std::less<>> all;
  return all;
}

rt::DType rt_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return rt::DType::f32;
    case DType::i64:
      return rt::DType::i64;
    case DType::i32:
      return rt::DType::i32;
    case DType::u8:
      return rt::DType::u8;
    default:
      raise<NotImplemented>("values of {}", name(dtype));
  }
}

int64_t count_of(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (const int64_t size : dims) n *= size;
  return n;
}

size_t bytes_of(const ProgramValue& v) {
  return static_cast<size_t>(count_of(v.dims)) * rt::size_of(v.dtype);
}

}  // namespace

std::vector<int64_t> dims_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

bool register_operator(const char* op, LowerOperator lower) {
  operators().insert_or_assign(op, lower);
  return true;
}

std::vector<std::string> engine_operators() {
  std::vector<std::string> all;
  for (const auto& [op, lower] : operators()) all.push_back(op);
  return all;
}

std::string_view name_of(rt::OpCode op) { return rt::find_op(static_cast<uint32_t>(op))->name; }

uint64_t EngineWeights::add(const void* data, size_t bytes) {
  const uint64_t hash = xxh64(data, bytes);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto known = first; known != last; ++known)
    if (const auto [at, size] = known->second;
        size == bytes && std::memcmp(bytes_.data() + at, data, bytes) == 0)
      return at;
  const uint64_t at = bytes_.size();
  bytes_.append(static_cast<const char*>(data), bytes);
  bytes_.resize((bytes_.size() + rt::kAlignment - 1) / rt::kAlignment * rt::kAlignment);
  by_hash_.emplace(hash, std::pair(at, bytes));
  return at;
}

uint32_t Lowering::add_value(ProgramValue v) {
  BRIM_CHECK(v.dims.size() <= static_cast<size_t>(rt::kMaxRank), NotImplemented,
             "values of more than {} axes", rt::kMaxRank);
  BRIM_CHECK(count_of(v.dims) > 0, NotImplemented, "values without elements");
  program_.values.push_back(std::move(v));
  return static_cast<uint32_t>(program_.values.size() - 1);
}

Lowering::Lowering(const EngineNetwork& of, int64_t pass, int with_threads, EngineWeights& weights)
    : network(of), threads(with_threads), weights_(weights) {
  program_.batch = program_.pass = pass;
  lowered_.resize(network.values.size());
  for (const EngineValue& v : network.values)
    if (v.constant.defined())
      constant_bytes_ += static_cast<size_t>(v.constant.numel()) * size_of(v.dtype);
  for (size_t i = 0; i < network.inputs.size(); ++i) {
    const EngineValue& x = network.values[static_cast<size_t>(network.inputs[i])];
    program_.inputs.push_back(
        add_value({rt_dtype(x.dtype), dims_of(x.shape), rt::Place::input, i, -1}));
    set_plain(network.inputs[i], program_.inputs.back());
  }
}

uint32_t Lowering::constant(const Tensor& x, std::vector<int64_t> dims) {
  const Tensor dense = x.contiguous();
  const uint64_t at =
      weights_.add(dense.raw(), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
  return add_value({rt_dtype(x.dtype()), std::move(dims), rt::Place::weights, at, -1});
}

uint32_t Lowering::made(std::vector<int64_t> dims, rt::DType dtype) {
  return add_value({dtype, std::move(dims), rt::Place::arena, 0, storages_++});
}

uint32_t Lowering::view(uint32_t id, std::vector<int64_t> dims) {
  ProgramValue v = value(id);
  if (v.dims == dims) return id;
  v.dims = std::move(dims);
  return add_value(std::move(v));
}

uint32_t Lowering::part(uint32_t id, int64_t first, std::vector<int64_t> dims) {
  ProgramValue v = value(id);
  v.offset += static_cast<uint64_t>(first) * rt::size_of(v.dtype);
  BRIM_CHECK(v.storage >= 0 && v.offset % rt::kAlignment == 0, Error,
             "[engine] a part that does not begin where a value can");
  v.dims = std::move(dims);
  return add_value(std::move(v));
}

uint32_t Lowering::transposed(uint32_t x, const std::vector<int>& order) {
  const std::vector<int64_t> from = value(x).dims;
  const size_t rank = from.size();
  BRIM_CHECK(rank <= static_cast<size_t>(rt::kMaxRank), NotImplemented,
             "values of more than {} axes", rt::kMaxRank);
  std::vector<int64_t> steps(rank), to(rank);
  int64_t step_of = 1;
  for (size_t i = rank; i-- > 0;) {
    steps[i] = step_of;
    step_of *= from[i];
  }
  for (size_t i = 0; i < rank; ++i) to[i] = from[static_cast<size_t>(order[i])];
  // Axes of one element may go anywhere.
  std::vector<int> longer;
  for (const int axis : order)
    if (from[static_cast<size_t>(axis)] != 1) longer.push_back(axis);
  if (std::ranges::is_sorted(longer)) return view(x, to);
  rt::CopyAttributes a{};
  std::fill_n(a.sizes, rt::kMaxRank, 1);
  const size_t shift = static_cast<size_t>(rt::kMaxRank) - rank;
  int64_t step_y = 1;
  for (size_t i = rank; i-- > 0;) {
    a.sizes[shift + i] = to[i];
    a.strides_x[shift + i] = steps[static_cast<size_t>(order[i])];
    a.strides_y[shift + i] = step_y;
    step_y *= to[i];
  }
  const uint32_t y = made(to, value(x).dtype);
  step(rt::OpCode::copy, {x}, y, a);
  return y;
}

uint32_t Lowering::plain(int id) {
  Lowered& l = lowered_[static_cast<size_t>(id)];
  if (l.plain >= 0) return static_cast<uint32_t>(l.plain);
  const EngineValue& v = network.values[static_cast<size_t>(id)];
  uint32_t made_value;
  if (v.constant.defined())
    made_value = constant(v.constant, dims_of(v.shape));
  else if (l.nhwc >= 0)
    made_value = transposed(static_cast<uint32_t>(l.nhwc), {0, 3, 1, 2});
  else if (l.image >= 0)
    made_value = view(plain(l.image), dims_of(v.shape));
  else
    raise<NotImplemented>("what comes before it is missing");
  set_plain(id, made_value);
  return made_value;
}

uint32_t Lowering::nhwc(int id) {
  Lowered& l = lowered_[static_cast<size_t>(id)];
  if (l.nhwc >= 0) return static_cast<uint32_t>(l.nhwc);
  const EngineValue& v = network.values[static_cast<size_t>(id)];
  BRIM_CHECK(v.shape.rank() == 4, NotImplemented, "images of {} axes", v.shape.rank());
  const uint32_t made_value = v.constant.defined()
                                  ? constant(v.constant.permute({0, 2, 3, 1}),
                                             {v.shape[0], v.shape[2], v.shape[3], v.shape[1]})
                                  : transposed(plain(id), {0, 2, 3, 1});
  set_nhwc(id, made_value);
  return made_value;
}

EngineProgram Lowering::program(const Progress& progress) && {
  // By operator and reason, the modules it is in.
  std::map<std::string, std::set<std::string>> problems;
  double done = 0;
  for (const EngineNode& node : network.nodes) {
    progress(done++ / static_cast<double>(network.nodes.size()));
    module_ = node.module;
    const auto found = operators().find(node.op);
    const std::string where = node.module.empty() ? "the network itself" : node.module;
    if (found == operators().end()) {
      problems[node.op].insert(where);
    } else {
      try {
        found->second(*this, node);
        continue;
      } catch (const NotImplemented& e) {
        // Operators behind one that is missing are not missing themselves.
        const bool is_first = std::ranges::none_of(node.inputs, [&](int id) {
          return id >= 0 && lowered_[static_cast<size_t>(id)].plain == -2;
        });
        if (is_first) problems[fmt::format("{} ({})", node.op, e.what())].insert(where);
      }
    }
    for (const int id : node.outputs) lowered_[static_cast<size_t>(id)].plain = -2;
  }
  if (!problems.empty()) {
    std::string list;
    for (const auto& [what, modules] : problems)
      list += fmt::format("{}{} in {}", list.empty() ? "" : "; ", what, fmt::join(modules, ", "));
    raise<NotImplemented>(
        "[engine] not in engines: {}; docs/DEPLOY.md has what can be exported, and ONNX holds more "
        "(--onnx)",
        list);
  }
  module_.clear();
  add_outputs();
  plan_memory();
  return std::move(program_);
}

void Lowering::add_outputs() {
  std::set<int> taken;  // storages that are an output's
  for (size_t i = 0; i < network.outputs.size(); ++i) {
    uint32_t y = plain(network.outputs[i]);
    const std::vector<int64_t>& dims = value(y).dims;
    BRIM_CHECK(!dims.empty() && dims[0] % program_.pass == 0, NotImplemented,
               "[engine] an output's axis 0 is the batch, and one has ({}) for {} samples",
               fmt::join(dims, ", "), program_.pass);
    const int storage = value(y).storage;
    size_t whole = 0;
    for (const ProgramValue& v : program_.values)
      if (storage >= 0 && v.storage == storage) whole = std::max(whole, bytes_of(v));
    if (storage < 0 || whole != bytes_of(value(y)) || !taken.insert(storage).second) {
      // An input, a constant, or an output already.
      const uint32_t copied = made(value(y).dims, value(y).dtype);
      rt::CopyAttributes a{};
      std::fill_n(a.sizes, rt::kMaxRank, 1);
      a.sizes[rt::kMaxRank - 1] = count_of(value(y).dims);
      a.strides_x[rt::kMaxRank - 1] = a.strides_y[rt::kMaxRank - 1] = 1;
      step(rt::OpCode::copy, {y}, copied, a);
      y = copied;
      taken.insert(value(y).storage);
    }
    program_.outputs.push_back(y);
  }
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    const int storage = value(program_.outputs[i]).storage;
    for (ProgramValue& v : program_.values)
      if (v.storage == storage) {
        v.place = rt::Place::output;
        v.at = i;
        v.storage = -1;
      }
  }
}

void Lowering::plan_memory() {
  std::map<int, plan::Block> blocks;
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const ProgramStep& s = program_.steps[i];
    for (const auto* ids : {&s.inputs, &s.outputs})
      for (const uint32_t id : *ids) {
        const ProgramValue& v = value(id);
        if (v.storage < 0) continue;
        const int at = static_cast<int>(i);
        plan::Block& block =
            blocks.try_emplace(v.storage, plan::Block{nullptr, 0, 0, at, at}).first->second;
        block.last = at;
        block.bytes = std::max(
            block.bytes, (bytes_of(v) + rt::kAlignment - 1) / rt::kAlignment * rt::kAlignment);
      }
  }
  std::vector<plan::Block> list;
  for (const auto& [storage, block] : blocks) list.push_back(block);
  program_.arena_bytes = plan::place(list, true);
  size_t k = 0;
  std::map<int, uint64_t> offsets;
  for (const auto& [storage, block] : blocks) offsets[storage] = list[k++].offset;
  for (ProgramValue& v : program_.values)
    if (v.storage >= 0) v.at = (offsets.contains(v.storage) ? offsets.at(v.storage) : 0) + v.offset;
}

EngineProgram engine_program(const EngineNetwork& network, int64_t pass, int threads,
                             EngineWeights& weights, const Progress& progress) {
  return Lowering(network, pass, threads, weights).program(progress);
}

}  // namespace brim::deploy
