// `brim bench deploy`: engines beside ONNX Runtime, OpenVINO, ncnn and PyTorch, measured by
// bench/compare_deploy.py.
#pragma once

#include <string>
#include <vector>

#include "command/arguments.h"

namespace brim::command {

struct DeployArguments {
  std::vector<std::string> models;      ///< names of networks; none: those of the targets
  std::string weights, recipe;          ///< instead of a network by name
  std::string python;                   ///< "": $BRIM_PYTHON, then python3
  std::vector<std::string> parts;       ///< of the comparison; none: all
  std::vector<std::string> sides;       ///< that are measured; none: all that are there
  std::vector<std::string> precisions;  ///< none: fp32 and int8
  std::vector<int64_t> batches;         ///< none: 1 and 16
  std::string isa;                      ///< "": the best that the CPU has
  std::string json, svg;
  std::string samples;  ///< what the script asks for: a folder for one network and its samples
  int threads = 0;      ///< 0: as many as there are
  int rounds = 0;       ///< 0: the script's own number
  double seconds = 0;
};

/// Defines `brim bench deploy` under `bench`.
Arguments define_deploy(Arguments bench, DeployArguments& d);

/// Puts the script in this process's place, see exec_script(); or writes what it asked for.
int run_deploy(const DeployArguments& arguments);

}  // namespace brim::command
