#include "command/top/sampler.h"

#include "core/clock.h"
#include "core/host_name.h"

namespace brim::top {
namespace {

constexpr size_t kProcesses = 200;

}  // namespace

Sampler::Sampler(Sources sources)
    : sources_(std::move(sources)), machine_(sources_.roots), hostname_(host_name()) {}

Moment Sampler::take(int64_t watched) {
  Moment moment{.hostname = hostname_, .machine = machine_.read(steady_seconds(), watched)};
  moment.process_count = static_cast<int64_t>(moment.machine.processes.size());
  moment.runs = ask_runs(sources_.folder);
  std::map<std::string, Run> told;
  for (Run& run : moment.runs) {
    const auto before = before_.find(run.socket);
    compare_accounts(run, before == before_.end() ? nullptr : &before->second);
    // One that gives no answer now may give one later, which compares with the last.
    if (run.started || before == before_.end())
      told[run.socket] = run;
    else
      told[run.socket] = before->second;
  }
  before_ = std::move(told);
  if (sources_.gpus) moment.gpus = sources_.gpus->read();
  keep_busiest(moment, kProcesses);
  moment.time = unix_seconds();
  return moment;
}

}  // namespace brim::top
