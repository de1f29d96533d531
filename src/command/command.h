// A subcommand of `brim`. Each lives in a file of its own and registers itself at start, so adding
// one touches no other file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <brim/core/error.h>

#include "command/arguments.h"

namespace brim::command {

/// Whether another command with options of its own follows a command's options.
enum class Wraps : uint8_t { nothing, a_command, a_command_behind_dashes };

struct Command {
  std::string name;
  std::string help;
  /// Adds the options to `args` and returns what to run once they are parsed; that returns the exit
  /// code. Called only for the command that was asked for.
  std::function<std::function<int()>(Arguments args)> define;
  Wraps wraps = Wraps::nothing;
};

/// What follows the options of a command that wraps another one: its words.
const std::vector<std::string>& wrapped_words();

/// In the order of their names.
const std::vector<Command>& commands();

/// `const Register command({"env", "...", define});` in the command's file.
struct Register {
  explicit Register(Command command);
};

/// Wrong use of the command line: exit code 2.
class UsageError : public Error {
  using Error::Error;
};

}  // namespace brim::command
