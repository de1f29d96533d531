// What limits a training, in plain words, where the numbers show it.
#pragma once

#include <string>

#include "command/top/moment.h"

namespace brim::top {

/// "one core at 100 %, GPU at 35 %: the host is the limit"; empty where nothing stands out.
std::string hint(const Moment& moment, const Run& run);

/// What the whole machine suffers from; empty where nothing stands out.
std::string machine_hint(const Moment& moment);

}  // namespace brim::top
