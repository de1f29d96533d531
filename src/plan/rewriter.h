// The one rewriter of plans: finds what fused kernels declare that they stand for
// (backend/rewrite.h), and puts them there.
#pragma once

#include <string>

#include "backend/rewrite.h"
#include "plan/program.h"

namespace brim::plan {

/// Replaces all that the rewrite's patterns describe, where that changes no result and pays.
/// Returns how often.
int apply_rewrite(const backend::Rewrite& rewrite, Program& program);

/// All rewrites, so that one whose pattern has a kernel that others make comes behind those;
/// otherwise those that replace the most launches come first.
std::vector<const backend::Rewrite*> rewrites_in_order();

}  // namespace brim::plan
