// `brim data get NAME`: download a data set.
#pragma once

#include <string>

namespace brim::command {

struct GetArguments {
  std::string name, out, mirror;
};

/// Returns the exit code.
int run_get(const GetArguments& arguments);

}  // namespace brim::command
