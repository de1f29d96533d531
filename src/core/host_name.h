// What this machine is called.
#pragma once

#include <string>

namespace brim {

/// Printable ASCII without blanks, others as '?'; "?" if there is no name.
std::string host_name();

}  // namespace brim
