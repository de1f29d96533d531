// Runs the real command and keeps what it said.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "temporary_folder.h"
#include "train/tiny_data.h"

namespace brim::tests {

struct Ran {
  int code = -1;  ///< exit code; 128 + signal where a signal ended it
  std::string out, err;
};

inline std::string brim_path() {
  const char* build = std::getenv("BRIM_BUILD_DIR");
  return std::filesystem::absolute(build ? build : "build") / "bin/brim";
}

inline std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// Whether the command chooses its device: it names none, or "auto".
inline bool chooses_device(const std::vector<std::string>& args) {
  if (args.empty() || (args[0] != "train" && args[0] != "eval" && args[0] != "predict"))
    return false;
  const auto device = std::find(args.begin(), args.end(), "--device");
  return device == args.end() || device + 1 == args.end() || device[1] == "auto";
}

/// Shell text that sends `signal` to the command, which `exec` puts in the shell's place, once
/// `condition` holds.
inline std::string signal_when(const std::string& condition, const std::string& signal) {
  return "p=$$; ( for i in $(seq 900); do " + condition + " && break; sleep 0.02; done; kill -" +
         signal + " $p ) & ";
}

/// `before`: shell text in front, such as "ulimit -f 1;". `after`: behind, such as "2>/dev/full".
/// A command that chooses its device finds no GPU, whatever this machine has, unless `before` names
/// a backend.
inline Ran run_brim(const std::vector<std::string>& args, const std::string& before = "",
                    const std::string& after = "") {
  const TemporaryFolder scratch;
  std::string line = before + " exec " + in_quotes(brim_path());
  if (chooses_device(args) && before.find("BRIM_BACKEND_PATH") == std::string::npos)
    line = "unset BRIM_BACKEND_PATH; export CUDA_VISIBLE_DEVICES=; " + line;
  for (const std::string& arg : args) line += " " + in_quotes(arg);
  line += " >" + in_quotes(scratch / "out") + " 2>" + in_quotes(scratch / "err") + " </dev/null " +
          after;
  const int status = std::system(("timeout 100 sh -c " + in_quotes(line)).c_str());
  Ran ran;
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.out = slurp(scratch / "out");
  ran.err = slurp(scratch / "err");
  return ran;
}

}  // namespace brim::tests
