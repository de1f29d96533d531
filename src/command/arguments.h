// The options of a command: what CLI11 offers, as far as brim uses it. CLI11 is all headers and
// takes seconds to compile, so only arguments.cpp and main.cpp see it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace brim::command {

inline constexpr const char* kEmptyValue =
    "an empty value; give one, or leave it out (is a shell variable unset?)";

/// One option or positional argument.
class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}

  Argument required();
  Argument show_default();  ///< in --help
  template <class T>
  Argument range(T low, T high);  ///< both are allowed; int, int64_t or double
  Argument one_of(std::initializer_list<const char*> words);
  Argument one_each();         ///< each use takes one word: `--part time --part memory`
  Argument comma_separated();  ///< one word with several values: `--batch 1,16`
  Argument file();             ///< FILE stands for it in --help

 private:
  CLI::Option* option_;
};

/// The arguments of a command or subcommand: a handle.
class Arguments {
 public:
  explicit Arguments(CLI::App* app) : app_(app) {}

  /// `--name` or, without dashes, a positional one; `value` is written when the command line is
  /// parsed, where an empty word is an error, and a number that is not written in decimal. T:
  /// std::string, std::vector<std::string>, int, int64_t, uint64_t, double, or std::optional of
  /// int64_t, uint64_t and double.
  template <class T>
  Argument add(const char* name, T& value, const char* help);
  Argument flag(const char* name, bool& value, const char* help);
  /// `--name`, or `--name=false`; empty where neither is given.
  Argument flag(const char* name, std::optional<bool>& value, const char* help);

  Arguments subcommand(const char* name, const char* help);
  void require_subcommand();
  bool chosen() const;  ///< after parsing: this subcommand was named

  /// What was given for an option, numbers without leading zeros; empty where it was not.
  std::vector<std::string> given(const char* name) const;

 private:
  CLI::App* app_;
};

}  // namespace brim::command
