// Takes moments: of the machine, its GPUs and the trainings.
#pragma once

#include <map>
#include <string>

#include "command/top/gpu_watch.h"
#include "command/top/moment.h"
#include "command/top/sockets.h"

namespace brim::top {

class Sampler {
 public:
  struct Sources {
    diag::MachineRoots roots;
    std::string folder;              ///< of the trainings' sockets
    const GpuWatch* gpus = nullptr;  ///< null: none are looked for
  };
  explicit Sampler(Sources sources);

  /// Shares and rates are of the time since the moment before. `watched`: the process whose threads
  /// are read as well; 0: none.
  Moment take(int64_t watched = 0);

 private:
  Sources sources_;
  diag::MachineReader machine_;
  std::string hostname_;
  std::map<std::string, Run> before_;  // by socket
};

}  // namespace brim::top
