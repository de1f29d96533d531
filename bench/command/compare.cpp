// See compare.h.
#include "bench/command/compare.h"

#include <fmt/format.h>

#include "bench/command/python.h"
#include "command/report.h"

namespace brim::command {

void run_compare(const CompareArguments& a) {
  check_json_path(a.json);
  check_output_path("svg", a.svg);
  check_outputs({{"--json", a.json}, {"--svg", a.svg}}, {});
  std::vector<std::string> words;
  const auto option = [&](const char* name, const std::string& value) {
    words.insert(words.end(), {name, value});
  };
  for (const std::string& part : a.parts) option("--part", part);
  if (!a.json.empty()) option("--json", a.json);
  if (!a.svg.empty()) option("--svg", a.svg);
  if (a.threads > 0) option("--threads", std::to_string(a.threads));
  if (a.rounds > 0) option("--rounds", std::to_string(a.rounds));
  if (a.seconds > 0) option("--seconds", fmt::format("{}", a.seconds));
  words.emplace_back("--");
  words.insert(words.end(), a.cases.begin(), a.cases.end());
  exec_script(a.python, "compare_torch.py", words);
}

}  // namespace brim::command
