// The passes of a plan. One file each in passes/; their order is in passes.cpp.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/program.h"

namespace brim::plan {

struct Pass {
  std::string name;  ///< for --passes: "layout"
  std::string what;  ///< one line for people
  /// Rewrites the program. Returns what it did in one line, "" for nothing.
  std::function<std::string(Program& program)> run;
  /// 0: exact, its launches give the bits that the launches they replace give. Else how many units
  /// in the last place of the largest element their f32 results may be away, as they add up in
  /// another order.
  int ulp = 0;
  bool only_if_named = false;  ///< it is none of `all`
};

/// Not a pass over launches, but switched like one (memory.h).
inline constexpr const char* kMemoryPass = "memory";

/// In the order in which they run: those of passes/, and one for each fused kernel's rewrite.
std::vector<Pass> all_passes();
/// Runs one of them, or those that kRewrites stands for. Returns what it did.
std::string run_pass(std::string_view name, Program& program);

/// The pass that is lossy, and done only where it is named.
inline constexpr const char* kRounding = "round_activations";
/// Stands for all passes that are exact.
inline constexpr const char* kAllPasses = "all";
inline constexpr const char* kExactPasses = "exact";
/// Stands for the rewrites of all fused kernels.
inline constexpr const char* kRewrites = "rewrites";

/// Which passes run: "" all of them, "-layout,-linear_relu" all but these, "memory,dead_code" these
/// alone, "exact" those that keep every bit of the eager step, "rewrites" those of fused kernels;
/// "+round_activations" one besides that is none of all. Throws ValueError for unknown names.
class PassSelection {
 public:
  explicit PassSelection(std::string_view text);
  bool contains(std::string_view name) const;
  /// Whether the same passes run, however they are named.
  bool operator==(const PassSelection& other) const;

 private:
  std::vector<std::string> names_;
  bool without_ = true;                             // names_ are left out
  std::vector<std::string> added_, only_if_named_;  // beside them; of all passes
};

/// Whether it runs: `offload` does for those as well that choose together with it.
bool runs(const Pass& pass, const PassSelection& chosen);
/// Lets them do to the program what is chosen.
void allow(Program& program, const PassSelection& chosen);

// Those of passes/, in alphabetical order.
std::string batch_casts(Program& program);
std::string common_subexpressions(Program& program);
std::string dead_code(Program& program);
std::string elide_copies(Program& program);
std::string fuse_chains(Program& program);
std::string layout(Program& program);
std::string offload(Program& program);
std::string overlap(Program& program);
std::string recompute(Program& program);
std::string round_activations(Program& program);

}  // namespace brim::plan
