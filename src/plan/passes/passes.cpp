// The order of the passes, and the choice among them.
#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/nearest.h"
#include "plan/pass.h"

namespace brim::plan {
namespace {

constexpr Pass kPasses[] = {
    {"dead_code", "leave out what nobody reads", dead_code},
    {"common_subexpressions", "compute the same thing once", common_subexpressions},
    {"fuse_conv", "convolution, relu and max pooling in one launch", fuse_conv, 8},
    {"fuse_norm", "batch norm, addition and ReLU in one launch", fuse_norm},
    {"fuse_loss", "a loss and its gradient in one launch", fuse_loss, 2},
    {"fuse_linear", "linear with its relu, its gradients, its optimizer's step", fuse_linear},
    {"fuse_head", "the last layers, the loss and their gradients in one launch", fuse_head, 16},
    {"layout", "the memory format of activations, by measured times", layout, 64},
    {"fuse_elementwise", "several elementwise ops in one pass over memory", fuse_elementwise},
    {"recompute", "make again what the backward pass needs, instead of keeping it", recompute},
};

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

PassSelection::PassSelection(std::string_view text) {
  std::vector<std::string> known{kMemoryPass, kExactPasses}, exact{kMemoryPass};
  for (const Pass& pass : kPasses) {
    known.emplace_back(pass.name);
    if (pass.ulp == 0) exact.emplace_back(pass.name);
  }
  bool first = true;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const bool minus = name.starts_with('-');
    if (minus) name.remove_prefix(1);
    BRIM_CHECK(first || minus == without_, ValueError,
               "[passes] '{}' mixes passes to run and passes to leave out; use one kind", name);
    BRIM_CHECK(std::find(known.begin(), known.end(), name) != known.end(), ValueError,
               "[passes] there is no pass '{}'{}", name, suggestion(name, known));
    without_ = minus;
    first = false;
    if (name == kExactPasses)
      names_.insert(names_.end(), exact.begin(), exact.end());
    else
      names_.emplace_back(name);
  }
}

bool PassSelection::contains(std::string_view name) const {
  const bool named = std::find(names_.begin(), names_.end(), name) != names_.end();
  return named != without_;
}

bool PassSelection::operator==(const PassSelection& other) const {
  const auto same = [&](std::string_view name) { return contains(name) == other.contains(name); };
  return same(kMemoryPass) && std::all_of(std::begin(kPasses), std::end(kPasses),
                                          [&](const Pass& pass) { return same(pass.name); });
}

}  // namespace brim::plan
