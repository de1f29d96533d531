// The order of the passes, and the choice among them.
#include <fmt/ranges.h>

#include <algorithm>

#include "core/check.h"
#include "core/nearest.h"
#include "plan/pass.h"
#include "plan/rewriter.h"

namespace brim::plan {
namespace {

Pass pass_of(const backend::Rewrite& rewrite) {
  return {rewrite.name, rewrite.what,
          [&rewrite](Program& program) {
            const int count = apply_rewrite(rewrite, program);
            return count == 0 ? "" : count == 1 ? "once" : fmt::format("{} times", count);
          },
          rewrite.ulp};
}

}  // namespace

std::vector<Pass> all_passes() {
  std::vector<Pass> passes{
      {"dead_code", "leave out what nobody reads", dead_code},
      {"common_subexpressions", "compute the same thing once", common_subexpressions},
  };
  for (const backend::Rewrite* rewrite : rewrites_in_order()) passes.push_back(pass_of(*rewrite));
  passes.insert(
      passes.end(),
      {{"layout", "the memory format of activations, by measured times", layout, 64},
       {"batch_casts", "casts of weights and of gradients in few launches", batch_casts},
       {"elide_copies", "products written where a copy would put them", elide_copies, 64},
       {"fuse_chains", "ops over elements and rows in one pass over memory", fuse_chains},
       {"recompute", "make again what the backward pass needs, instead of keeping it", recompute},
       {"overlap", "gradients summed over ranks while others are computed", overlap},
       {"offload", "move to the host what has no room on the device meanwhile", offload},
       {kRounding, "keep or move in bf16 what has no room in f32; where it is named",
        round_activations, 1 << 16, /*only_if_named=*/true}});
  return passes;
}

bool runs(const Pass& pass, const PassSelection& chosen) {
  return chosen.contains(pass.name) ||
         (pass.name == "offload" && (chosen.contains("recompute") || chosen.contains(kRounding)));
}

void allow(Program& program, const PassSelection& chosen) {
  program.may_offload = chosen.contains("offload");
  program.may_recompute = chosen.contains("recompute");
  program.may_round = chosen.contains(kRounding);
}

std::string run_pass(std::string_view name, Program& program) {
  const PassSelection chosen(name);
  allow(program, chosen);
  std::string notes;
  for (const Pass& pass : all_passes())
    if (runs(pass, chosen))
      if (const std::string note = pass.run(program); !note.empty())
        notes += (notes.empty() ? "" : "; ") + pass.name + ": " + note;
  return notes;
}

PassSelection::PassSelection(std::string_view text) {
  std::vector<std::string> known{kMemoryPass, kAllPasses, kExactPasses, kRewrites},
      exact{kMemoryPass}, rewrites;
  for (const Pass& pass : all_passes()) {
    known.push_back(pass.name);
    if (pass.ulp == 0) exact.push_back(pass.name);
    if (pass.only_if_named) only_if_named_.push_back(pass.name);
  }
  for (const backend::Rewrite* r : backend::rewrites()) rewrites.push_back(r->name);
  if (text == kAllPasses) return;
  bool first = true;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const bool minus = name.starts_with('-'), plus = name.starts_with('+');
    if (minus || plus) name.remove_prefix(1);
    BRIM_CHECK(first || plus || minus == without_, ValueError,
               "[passes] '{}' mixes passes to run and passes to leave out; use one kind", name);
    if (first && name == kAllPasses && text.starts_with('+')) continue;
    BRIM_CHECK(name != kAllPasses, ValueError,
               "[passes] '{}' stands alone, or before +NAME of a pass that is none of all", name);
    BRIM_CHECK(std::find(known.begin(), known.end(), name) != known.end(), ValueError,
               "[passes] there is no pass '{}'{}", name, suggestion(name, known));
    if (plus) {
      BRIM_CHECK(std::ranges::count(only_if_named_, name) > 0, ValueError,
                 "[passes] +{} adds nothing to all passes; + is for those that are none of them "
                 "({})",
                 name, fmt::join(only_if_named_, ", "));
      added_.emplace_back(name);
      continue;
    }
    without_ = minus;
    first = false;
    const std::vector<std::string> one{std::string(name)};
    const auto& named = name == kExactPasses ? exact : name == kRewrites ? rewrites : one;
    names_.insert(names_.end(), named.begin(), named.end());
  }
}

bool PassSelection::contains(std::string_view name) const {
  const auto is_in = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  if (is_in(added_)) return true;
  return is_in(names_) != without_ && !(without_ && is_in(only_if_named_));
}

bool PassSelection::operator==(const PassSelection& other) const {
  const auto same = [&](std::string_view name) { return contains(name) == other.contains(name); };
  const std::vector<Pass> passes = all_passes();
  return same(kMemoryPass) && std::all_of(passes.begin(), passes.end(),
                                          [&](const Pass& pass) { return same(pass.name); });
}

}  // namespace brim::plan
