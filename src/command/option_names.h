// The library's messages name what its users set: fields and functions of its API. The command's
// users set the same by options.
#pragma once

#include <string>

namespace brim::command {

/// "use TrainOptions::out=run" as "use --out run".
std::string with_option_names(std::string text);

}  // namespace brim::command
