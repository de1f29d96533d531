// The words of the command line find their command.
#include <brim/command/cli.h>
#include <brim/version.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <string_view>

#include "backend/cpu/runtime/isa.h"
#include "command/command.h"
#include "command/option_names.h"
#include "command/say.h"
#include "command/start.h"
#include "command/suggest.h"

namespace brim::command {
namespace {

std::vector<Command>& registry() {
  static std::vector<Command> commands;
  return commands;
}

std::vector<std::string>& wrapped() {
  static std::vector<std::string> words;
  return words;
}

/// Takes the other command off the words of one that wraps it, whose own options all have values
/// unless `--` has to stand between. Returns how many words are left.
int unwrap(int argc, char** argv, Wraps wraps) {
  if (wraps == Wraps::nothing) return argc;
  int i = 2;
  if (wraps == Wraps::a_command_behind_dashes) {
    while (i < argc && std::string_view(argv[i]) != "--") ++i;
    wrapped().assign(argv + std::min(i + 1, argc), argv + argc);
    return i;
  }
  while (i < argc && argv[i][0] == '-') {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") return argc;
    const bool has_value =
        word.find('=') != std::string_view::npos || (word.size() > 2 && word[1] != '-');
    if (word == "--") break;
    i += has_value ? 1 : 2;
  }
  const int end = std::min(i, argc);
  if (i < argc && std::string_view(argv[i]) == "--") ++i;
  for (; i < argc; ++i) wrapped().emplace_back(argv[i]);
  return end;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// Words that no option and no subcommand took.
void check_leftovers(const CLI::App& app) {
  for (const CLI::App* sub : app.get_subcommands()) check_leftovers(*sub);
  const std::vector<std::string> left = app.remaining();
  if (left.empty()) return;
  const std::string& word = left.front();
  if (word.starts_with("-"))
    throw UsageError(fmt::format("unknown option '{}'{}", word.substr(0, word.find('=')),
                                 hint(word.substr(0, word.find('=')), option_names(app))));
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  if (!names.empty())
    throw UsageError(fmt::format("unknown subcommand '{}'{}", word, hint(word, names)));
  throw UsageError(
      fmt::format("unexpected argument '{}'; see `brim {} --help`", word, app.get_name()));
}

/// CLI11 takes the next word for the value of `--json=`: it would write to the picture that
/// follows.
void check_values(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      throw UsageError(fmt::format("{}: {}", word.substr(0, word.size() - 1), kEmptyValue));
  }
}

std::string one_line(std::string text) {
  text = with_option_names(std::move(text));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void allow_leftovers(CLI::App& app) {
  app.allow_extras();
  for (CLI::App* sub : app.get_subcommands({})) allow_leftovers(*sub);
}

int run(int argc, char** argv) {
  CLI::App app("A deep-learning framework that keeps the device full.", "brim");
  app.set_version_flag("--version", std::string("brim ") + BRIM_VERSION);
  app.require_subcommand(0, 1);
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  const std::string wanted = argc > 1 ? argv[1] : "";
  if (!wanted.empty() && !wanted.starts_with("-") &&
      std::find(names.begin(), names.end(), wanted) == names.end())
    throw UsageError(fmt::format("unknown command '{}'{}", wanted, hint(wanted, names)));

  std::function<int()> action;
  for (const Command& command : commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    if (command.name != wanted) continue;
    action = command.define(Arguments(sub));
    argc = unwrap(argc, argv, command.wraps);
  }
  allow_leftovers(app);
  check_values(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    // A mistyped option is the better explanation of a missing one.
    check_leftovers(app);
    throw UsageError(one_line(e.what()));
  }
  check_leftovers(app);
  if (!action) {
    std::fputs(app.help().c_str(), stdout);
    return wanted.empty() ? 2 : 0;
  }
  if (wanted != "env") cpu::check_isa();  // env helps to mend it
  return action();
}

}  // namespace

const std::vector<std::string>& wrapped_words() { return wrapped(); }

const std::vector<Command>& commands() {
  std::vector<Command>& all = registry();
  std::sort(all.begin(), all.end(),
            [](const Command& a, const Command& b) { return a.name < b.name; });
  return all;
}

Register::Register(Command command) { registry().push_back(std::move(command)); }

}  // namespace brim::command

int brim::cli(int argc, char** argv) {
  command::mark_start();
  // A stream that is closed stays unwritable: no file or socket may get its number and its text.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", O_RDONLY);
  // Writing beyond a file-size limit, or to a pipe whose reader is gone, shall be an error that is
  // reported, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  int code = 1;
  try {
    code = command::run(argc, argv);
    const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
    if (lost && code == 0) {
      std::fputs(
          "brim: error: [cli] standard output cannot be written; is the disk full, or did the "
          "reader of a pipe end?\n",
          stderr);
      code = 1;
    }
  } catch (const command::UsageError& e) {
    (void)std::fflush(stdout);  // an error stands behind what was printed before it, and in no line
    command::say(stderr, "brim: error: {}\n", command::one_line(e.what()));
    code = 2;
  } catch (const std::bad_alloc&) {
    (void)std::fflush(stdout);
    std::fputs("brim: error: [memory] the system has no memory left; use a smaller batch\n",
               stderr);
  } catch (const std::exception& e) {
    (void)std::fflush(stdout);
    command::say(stderr, "brim: error: {}\n", command::one_line(e.what()));
  }
  return code;
}
