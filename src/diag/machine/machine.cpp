#include "diag/machine/machine.h"

#include "diag/machine/parts.h"

namespace brim::diag {

struct MachineReader::State {
  MachineRoots roots;
  double at = -1;  // of the reading before
  CoreReader cores;
  PressureReader pressure;
  DiskReader disks;
  NetworkReader networks;
  LimitReader limits;
  ProcessReader processes;
};

MachineReader::MachineReader(MachineRoots roots) : state_(std::make_unique<State>()) {
  state_->roots = std::move(roots);
}
MachineReader::~MachineReader() = default;

MachineReading MachineReader::read(double at, int64_t watched) {
  State& s = *state_;
  MachineReading r;
  if (s.at >= 0 && at > s.at) r.seconds = at - s.at;
  s.at = at;
  r.cores = s.cores.read(s.roots, at);
  r.memory = read_memory(s.roots);
  r.pressure = s.pressure.read(s.roots, r.seconds);
  r.disks = s.disks.read(s.roots, r.seconds);
  r.networks = s.networks.read(s.roots, r.seconds);
  r.limits = s.limits.read(s.roots, r.seconds);
  r.processes = s.processes.read(s.roots, r.seconds);
  r.watched = watched;
  if (watched > 0) r.threads = s.processes.read_threads(s.roots, watched, r.seconds);
  return r;
}

}  // namespace brim::diag
