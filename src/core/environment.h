// Settings from the environment, of which words that are none are refused, not taken for another.
#pragma once

#include <cstdint>
#include <string>

namespace brim {

/// The variable's value; "" where it is not set.
std::string environment(const char* name);

/// Whether a switch is on: 1, or 0 and "" for off. Throws ValueError for anything else.
bool environment_switch(const char* name);

/// A whole number that is not negative; `otherwise` where the variable is not set or "". Throws
/// ValueError for anything else.
int64_t environment_number(const char* name, int64_t otherwise);

}  // namespace brim
