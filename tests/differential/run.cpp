// differential_run FILE [--from N] [MODE...]: computes the draws of a file from the N-th on, in all
// modes or in these. Prints JSON, a line before each draw and one for each mismatch, so that who
// started it knows which draw ended the process.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "differential/draw.h"

namespace {

void print(const nlohmann::json& line) {
  std::puts(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

int run(int count, char** arguments) {
  size_t from = 0;
  std::vector<std::string> modes;
  for (int i = 2; i < count; ++i) {
    if (std::strcmp(arguments[i], "--from") == 0 && i + 1 < count)
      from = std::strtoull(arguments[++i], nullptr, 10);
    else
      modes.emplace_back(arguments[i]);
  }
  if (modes.empty()) modes = brim::differential::modes();
  const auto draws = brim::differential::read_draws(arguments[1]);
  for (size_t i = from; i < draws.size(); ++i)
    for (const std::string& mode : modes) {
      print({{"begin", i}, {"mode", mode}});
      for (const auto& m : brim::differential::run(draws[i], mode))
        print({{"mismatch", i}, {"mode", m.mode}, {"what", m.what}, {"text", m.text}});
    }
  print({{"end", draws.size()}, {"modes", modes}});
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fputs("usage: differential_run FILE [--from N] [MODE...]\n", stderr);
    return 2;
  }
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "differential_run: %s\n", error.what());
    return 2;
  }
}
