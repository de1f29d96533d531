// Computes the same thing once: of two launches with equal kernels, options and inputs, the second
// goes, and its readers take the first one's result.
#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "plan/pass.h"

namespace brim::plan {
namespace {

/// A launch that only writes temporaries which no other launch writes.
bool pure(const Program& program, const Uses& uses, const Launch& launch) {
  if (launch.refresh || launch.commit || launch.draw) return false;
  for (const Operand& o : launch.operands())
    if (o.writes && o.tensor->defined() &&
        (!program.temporary(*o.tensor) || uses.writer(*o.tensor) < 0))
      return false;
  return true;
}

/// True if nothing that `launch` (at `first`) reads is written up to `second`.
bool inputs_hold(const Uses& uses, const Launch& launch, int first, int second) {
  for (const Operand& o : launch.operands())
    if (!o.writes && o.tensor->defined())
      for (const int w : uses.writers(*o.tensor))
        if (w > first && w < second) return false;
  return true;
}

bool same_inputs(const Launch& a, const Launch& b) {
  if (a.operands().size() != b.operands().size()) return false;
  for (size_t i = 0; i < a.operands().size(); ++i) {
    const Tensor &x = a.operand(i), &y = b.operand(i);
    if (x.defined() != y.defined()) return false;
    if (!x.defined()) continue;
    const bool alike = a.operands()[i].writes
                           ? x.shape() == y.shape() && x.strides() == y.strides() &&
                                 x.offset() == y.offset() && x.dtype() == y.dtype()
                           : same_view(x, y);
    if (!alike) return false;
  }
  return true;
}

using Replaced = std::unordered_map<const Storage*, Ref<Storage>>;

void replace_storages(const Launch& launch, const Replaced& replaced) {
  for (const Operand& o : launch.operands()) {
    if (!o.tensor->defined()) continue;
    const auto found = replaced.find(o.tensor->storage().get());
    if (found != replaced.end()) o.tensor->impl()->storage = found->second;
  }
}

/// Equal for launches that may be the same.
size_t hash_of(const Launch& launch) {
  size_t hash = std::hash<std::string_view>()(launch.name());
  for (const Operand& o : launch.operands())
    if (!o.writes && o.tensor->defined())
      hash = hash * 31 + std::hash<const void*>()(o.tensor->storage().get());
  return hash;
}

}  // namespace

std::string common_subexpressions(Program& program) {
  // A snapshot is enough: only launches go that nobody else writes after.
  const Uses uses(program);
  std::unordered_multimap<size_t, int> earlier;  // by hash
  Replaced replaced;
  std::vector<std::unique_ptr<Launch>> gone;  // until the end: their storages are keys
  int dropped = 0;
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch& launch = *program.launches[i];
    const bool repeats = pure(program, uses, launch);
    replace_storages(launch, replaced);
    if (!repeats) continue;
    const size_t hash = hash_of(launch);
    const auto [begin, end] = earlier.equal_range(hash);
    const auto same = std::find_if(begin, end, [&](const auto& entry) {
      const Launch& first = *program.launches[static_cast<size_t>(entry.second)];
      return is(launch, first.name()) && first.same_options(launch) && same_inputs(first, launch) &&
             inputs_hold(uses, first, entry.second, static_cast<int>(i));
    });
    if (same == end) {
      earlier.emplace(hash, static_cast<int>(i));
      continue;
    }
    const Launch& first = *program.launches[static_cast<size_t>(same->second)];
    for (size_t k = 0; k < first.operands().size(); ++k)
      if (first.operands()[k].writes && first.operand(k).defined())
        replaced[launch.operand(k).storage().get()] = first.operand(k).storage();
    gone.push_back(std::move(program.launches[i]));
    ++dropped;
  }
  program.compact();
  return dropped ? fmt::format("dropped {} launches that repeat others", dropped) : "";
}

}  // namespace brim::plan
