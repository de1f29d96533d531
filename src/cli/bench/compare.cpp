// See compare.h.
#include "cli/bench/compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/report.h"
#include "core/check.h"

namespace brim::cli {
namespace {

namespace fs = std::filesystem;

/// The script of the source tree that this command was built in, or of the prefix it was installed
/// to.
fs::path find_script(const fs::path& self) {
  for (fs::path folder = self.parent_path(); folder != folder.root_path();
       folder = folder.parent_path())
    for (const char* place : {"share/brim/bench/compare_torch.py", "bench/compare_torch.py"})
      if (fs::path script = folder / place; fs::exists(script)) return script;
  raise<FileError>(
      "[bench] compare_torch.py is in no folder above {}; install brim with `cmake --install`, or "
      "run bench/compare_torch.py of its sources with --brim {}",
      self.parent_path().string(), self.string());
}

std::string find_python(const std::string& named) {
  if (!named.empty()) return named;
  const char* variable = std::getenv("BRIM_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  return variable && *variable ? variable : "python3";
}

}  // namespace

void run_compare(const CompareArguments& a) {
  check_json_path(a.json);
  check_output_path("svg", a.svg);
  check_outputs({{"--json", a.json}, {"--svg", a.svg}}, {});
  const fs::path self = fs::read_symlink("/proc/self/exe");
  std::vector<std::string> words{find_python(a.python), find_script(self), "--brim", self};
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

  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  execvp(argv[0], argv.data());
  const char* why = std::strerror(errno);  // NOLINT(concurrency-mt-unsafe)
  raise<FileError>(
      "[bench] {} cannot be started ({}); name a Python that has PyTorch with --python PATH or in "
      "BRIM_PYTHON",
      words[0], why);
}

}  // namespace brim::cli
