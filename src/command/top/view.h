// What the terminal shows, as a function of moments, the user's choices and the terminal's size.
#pragma once

#include <vector>

#include "command/top/canvas.h"
#include "command/top/moments.h"
#include "command/top/view_state.h"

namespace brim::top {

/// How many moments a view can make use of.
inline constexpr size_t kViewMoments = 60;

/// `moments`: the one shown is the last; those before are its history. Not empty.
Canvas draw(const std::vector<MomentPointer>& moments, const ViewState& state, Size size);

}  // namespace brim::top
