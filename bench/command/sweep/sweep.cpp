// See sweep.h.
#include "bench/command/sweep/sweep.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <set>

#include "bench/command/python.h"
#include "bench/command/sweep/ops.h"
#include "bench/command/sweep/serve.h"
#include "command/command.h"
#include "command/report.h"
#include "command/suggest.h"

namespace brim::command {
namespace {

constexpr double kMaxElements = 1e9;
constexpr double kMaxThreads = 4096;

/// "1e4,1e6" -> its words.
std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i)
    if (i == list.size() || list[i] == ',') {
      words.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    }
  return words;
}

/// Throws UsageError unless all are whole numbers in [1, most]; 1e4 is one.
void check_counts(const char* option, const std::string& list, double most) {
  for (const std::string& word : words_of(list)) {
    double value = 0;
    const char* const end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc() || at != end || value != std::floor(value) || value < 1 ||
        value > most)
      throw UsageError(
          fmt::format("{}: '{}' is no whole number from 1 to {}; write them as 1e4,1e6 or 1,2",
                      option, word, most));
  }
}

void check_words(const char* option, const std::vector<std::string>& words,
                 const std::set<std::string>& known) {
  for (const std::string& word : words)
    if (!known.contains(word))
      throw UsageError(fmt::format("{}: unknown '{}'{}", option, word,
                                   hint(word, {known.begin(), known.end()})));
}

bool meet(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  return std::any_of(some.begin(), some.end(), [&](const std::string& word) {
    return std::find(others.begin(), others.end(), word) != others.end();
  });
}

std::vector<std::string> dtype_names(const SweepOp& op) {
  std::vector<std::string> names;
  for (const DType dtype : op.dtypes) names.emplace_back(name(dtype));
  return names;
}

/// Throws UsageError for words that no op has, and where nothing is left to measure.
void check_choice(const SweepArguments& a) {
  const std::vector<SweepOp> ops = sweep_ops();
  const std::vector<std::string> layouts = words_of(a.layouts), dtypes = words_of(a.dtypes);
  std::set<std::string> names, all_layouts, all_dtypes;
  bool any = false;
  for (const SweepOp& op : ops) {
    const std::vector<std::string> own = dtype_names(op);
    names.insert(op.name);
    all_layouts.insert(op.layouts.begin(), op.layouts.end());
    all_dtypes.insert(own.begin(), own.end());
    const bool named =
        a.ops.empty() || std::find(a.ops.begin(), a.ops.end(), op.name) != a.ops.end();
    any = any || (named && (a.layouts.empty() || meet(op.layouts, layouts)) &&
                  (a.dtypes.empty() || meet(own, dtypes)));
  }
  for (const std::string& op : a.ops)
    if (!names.contains(op))
      throw UsageError(fmt::format("unknown op '{}'{}; `brim bench sweep list` names them", op,
                                   hint(op, {names.begin(), names.end()})));
  if (!a.layouts.empty()) check_words("--layouts", layouts, all_layouts);
  if (!a.dtypes.empty()) check_words("--dtypes", dtypes, all_dtypes);
  if (!any)
    throw UsageError("no such op has these layouts and dtypes; `brim bench sweep list` tells them");
}

int list_ops() {
  fmt::print("{:<24}{:<12}{:<20}{}\n", "op", "family", "dtypes", "layouts");
  for (const SweepOp& op : sweep_ops())
    fmt::print("{:<24}{:<12}{:<20}{}\n", op.name, op.family,
               fmt::format("{}", fmt::join(dtype_names(op), ",")), fmt::join(op.layouts, ","));
  return 0;
}

int serve() {
  SweepServer server;
  for (std::string line; std::getline(std::cin, line);) {
    fmt::print("{}\n", server.answer(line));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

std::vector<SweepOp> sweep_ops() {
  std::vector<SweepOp> all;
  for (const auto family :
       {sweep_elementwise, sweep_rows, sweep_products, sweep_moves, sweep_training}) {
    std::vector<SweepOp> ops = family();
    std::move(ops.begin(), ops.end(), std::back_inserter(all));
  }
  return all;
}

int run_sweep(const SweepArguments& a) {
  if (a.serve) return serve();
  if (a.ops == std::vector<std::string>{"list"}) return list_ops();
  check_choice(a);
  if (!a.sizes.empty()) check_counts("--sizes", a.sizes, kMaxElements);
  if (!a.threads.empty()) check_counts("--threads", a.threads, kMaxThreads);
  check_json_path(a.json);
  std::vector<std::string> words;
  const auto option = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  option("--sizes", a.sizes);
  option("--dtypes", a.dtypes);
  option("--layouts", a.layouts);
  option("--threads", a.threads);
  option("--json", a.json);
  if (a.rounds > 0) option("--rounds", std::to_string(a.rounds));
  if (a.seconds > 0) option("--seconds", fmt::format("{}", a.seconds));
  if (a.below > 0) option("--below", fmt::format("{}", a.below));
  words.emplace_back("--");
  words.insert(words.end(), a.ops.begin(), a.ops.end());
  exec_script(a.python, "sweep_torch.py", words);
}

}  // namespace brim::command
