// The passes of a plan. One file each in passes/; their order is in passes.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/program.h"

namespace brim::plan {

struct Pass {
  const char* name;  ///< for --passes: "fuse_conv"
  const char* what;  ///< one line for people
  /// Rewrites the program. Returns what it did in one line, "" for nothing.
  std::string (*run)(Program& program);
  /// 0: exact, its launches give the bits that the launches they replace give. Else how many units
  /// in the last place of the largest element their f32 results may be away, as they add up in
  /// another order.
  int ulp = 0;
};

/// Not a pass over launches, but switched like one (memory.h).
inline constexpr const char* kMemoryPass = "memory";

/// In the order in which they run.
std::span<const Pass> all_passes();

/// Stands for all passes that are exact.
inline constexpr const char* kExactPasses = "exact";

/// Which passes run: "" all of them, "-layout,-fuse_conv" all but these, "memory,dead_code" these
/// alone, "exact" those that keep every bit of the eager step. Throws ValueError for unknown names.
class PassSelection {
 public:
  explicit PassSelection(std::string_view text);
  bool contains(std::string_view name) const;
  /// Whether the same passes run, however they are named.
  bool operator==(const PassSelection& other) const;

 private:
  std::vector<std::string> names_;
  bool without_ = true;  // names_ are left out
};

// The passes themselves, in alphabetical order.
std::string common_subexpressions(Program& program);
std::string dead_code(Program& program);
std::string fuse_conv(Program& program);
std::string fuse_elementwise(Program& program);
std::string fuse_head(Program& program);
std::string fuse_linear(Program& program);
std::string fuse_loss(Program& program);
std::string fuse_norm(Program& program);
std::string layout(Program& program);
std::string recompute(Program& program);

}  // namespace brim::plan
