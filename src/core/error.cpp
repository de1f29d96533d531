#include <brim/core/error.h>

#include "core/printable.h"

namespace brim {

Error::Error(const std::string& what) : std::runtime_error(printable(what)) {}

}  // namespace brim
