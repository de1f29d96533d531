// What a loader's workers did.
#pragma once

#include <string>
#include <vector>

namespace brim::data {

/// What a worker did in epochs that have ended, in seconds. The parts add up to `wall`. That the
/// loop waited for it is Cause::input in the loop's account (brim/diag/account.h).
struct WorkerAccount {
  double wall = 0;     ///< seconds of all workers together, which the others add up to
  double read = 0;     ///< files and archives; what a source makes itself, as Source::read does
  double decode = 0;   ///< pictures in files
  double augment = 0;  ///< the other steps of the transform, and data::map()
  double slot = 0;     ///< waiting for a free slot: the loop takes batches later than they are made
  double stolen = 0;   ///< ready, and no core
  double idle = 0;     ///< starting, and behind its last batch of an epoch
};

/// All of them as one.
WorkerAccount sum(const std::vector<WorkerAccount>& workers);

/// "decode 61 %, augment 30 %, idle 9 %", the largest first, without what is less than half a
/// percent.
std::string describe(const WorkerAccount& worker);
/// The same of several: "2 workers: decode 61 %, ..". "no workers" for none.
std::string describe(const std::vector<WorkerAccount>& workers);

}  // namespace brim::data
