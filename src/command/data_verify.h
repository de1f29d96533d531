// `brim data verify PATH`: reads a data set once and tells what is damaged.
#pragma once

#include <string>

namespace brim::command {

struct VerifyArguments {
  std::string input, json;
  int workers = -1;
};

/// Prints the report; returns the exit code. Throws FileError at the end if something is damaged.
int run_verify(const VerifyArguments& arguments);

}  // namespace brim::command
