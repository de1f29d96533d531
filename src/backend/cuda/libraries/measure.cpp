// See measure.h.
#include "backend/cuda/libraries/measure.h"

#include <brim/core/error.h>
#include <brim/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cuda/graph/capture.h"
#include "backend/cuda/runtime/dynamic_library.h"
#include "backend/cuda/runtime/failure.h"
#include "core/environment.h"
#include "core/runtime.h"
#include "diag/span.h"

namespace brim::cuda {
namespace {

constexpr int kRounds = 3, kRuns = 8;
constexpr double kLong = 2;        // milliseconds: of what takes longer, a graph has one run
constexpr double kClearly = 0.97;  // of the time of those before: faster is no accident
constexpr int kMethod = 3;         // another number: what was measured before counts no longer

class Event {
 public:
  Event() { BRIM_CUDA(cudaEventCreateWithFlags(&event_, 0)); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream stream) { BRIM_CUDA(cudaEventRecord(event_, native(stream))); }
  /// Milliseconds from this one to `end`, which is waited for.
  double until(const Event& end) const {
    BRIM_CUDA(cudaEventSynchronize(end.event_));
    float milliseconds = 0;
    BRIM_CUDA(cudaEventElapsedTime(&milliseconds, event_, end.event_));
    return static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Milliseconds that the stream is busy with `work`.
template <class F>
double time_of(Stream stream, const F& work) {
  Event begin, end;
  begin.record(stream);
  work();
  end.record(stream);
  return begin.until(end);
}

/// A candidate that can be queued, and its times.
class Trial {
 public:
  Trial(int number, const Candidate& candidate) : number_(number), candidate_(candidate) {}
  ~Trial() {
    if (exec_) (void)cudaGraphExecDestroy(exec_);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// First runs: the library loads what it needs, and it shows how much scratch memory is wanted,
  /// and how many runs a graph should have. False if the candidate cannot be used.
  bool begin(Stream stream) {
    const Context context{stream, &scratch_};
    if (!can_queue(candidate_, context)) return false;
    bool again = false;
    eager_ = time_of(stream, [&] { again = can_queue(candidate_, context); });
    runs_ = eager_ < kLong ? kRuns : 1;
    return again;
  }
  size_t scratch_bytes() const { return scratch_.max_bytes(); }

  /// Captures the runs, with `scratch` as their scratch memory. False if they cannot be captured:
  /// then they could not be part of a compiled step either.
  bool capture(Stream stream, void* scratch, size_t bytes) {
    scratch_.rebind(scratch, bytes);
    const Context context{stream, &scratch_};
    cuda::Capture capture(stream);
    bool queued = true;
    for (int i = 0; i < runs_ && queued; ++i) queued = can_queue(candidate_, context);
    cudaError_t ended = cudaSuccess;
    const cudaGraph_t graph = capture.end(ended);
    // No nodes: what was queued went past the capture, and the graph's time is none.
    if (graph && queued) (void)cudaGraphGetNodes(graph, nullptr, &nodes_);
    if (nodes_ > 0) (void)cudaGraphInstantiate(&exec_, graph, 0);
    (void)cudaGetLastError();
    if (graph) (void)cudaGraphDestroy(graph);
    return exec_ != nullptr;
  }

  /// Takes the time of a round. False if the graph cannot be launched, as where a kernel of it has
  /// no room.
  bool round(Stream stream) {
    try {
      const double time =
          time_of(stream, [&] { BRIM_CUDA(cudaGraphLaunch(exec_, native(stream))); });
      times_.push_back(time / runs_);
      return true;
    } catch (const Error&) {
      (void)cudaGetLastError();
      return false;
    }
  }
  /// Milliseconds of a run: the median of the rounds.
  double median() const {
    std::vector<double> times = times_;
    const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }
  int number() const { return number_; }
  std::string str() const {
    return fmt::format("'{}' {:.2f} us (eager {:.2f}, nodes {})", candidate_.name, 1e3 * median(),
                       1e3 * eager_, nodes_);
  }

 private:
  int number_;
  const Candidate& candidate_;
  ScratchStack scratch_;
  double eager_ = 0;
  int runs_ = 1;
  size_t nodes_ = 0;
  cudaGraphExec_t exec_ = nullptr;
  std::vector<double> times_;
};

/// The fastest; -1 if none can be used. `timed` gets what was measured, for people.
int fastest(std::span<const Candidate> candidates, Stream stream, std::string& timed) {
  std::vector<std::unique_ptr<Trial>> trials;
  for (size_t i = 0; i < candidates.size(); ++i) {
    auto trial = std::make_unique<Trial>(static_cast<int>(i), candidates[i]);
    if (trial->begin(stream)) trials.push_back(std::move(trial));
  }
  // One block for all: they run one after the other. Held until the graphs are gone, as nobody may
  // give back memory that a graph uses. Those that want more than there is are passed over.
  const auto wanted = [](const auto& trial) { return trial->scratch_bytes(); };
  size_t bytes = 1;
  std::optional<Workspace> scratch;
  while (!scratch && !trials.empty()) {
    const auto largest = std::ranges::max_element(trials, {}, wanted);
    bytes = std::max<size_t>(wanted(*largest), 1);
    try {
      scratch.emplace(bytes, stream, nullptr);
    } catch (const OutOfMemory&) {
      trials.erase(largest);
    }
  }
  std::erase_if(trials, [&](const auto& trial) {
    return !trial->capture(stream, scratch->as<void>(), bytes);
  });
  for (int round = 0; round < kRounds; ++round)
    std::erase_if(trials, [&](const auto& trial) { return !trial->round(stream); });
  int best = -1;
  double least = 0;
  for (const auto& trial : trials) {
    timed += (timed.empty() ? "" : ", ") + trial->str();
    const double time = trial->median();
    if (best >= 0 && time >= kClearly * least) continue;
    best = trial->number();
    least = time;
  }
  trials.clear();
  return best;
}

/// BRIM_CUDA_EXPLAIN=1: a line about each choice on standard error.
void explain(const std::string& problem, std::span<const Candidate> candidates, int best,
             const std::string& how) {
  static const bool is_wanted = environment_switch("BRIM_CUDA_EXPLAIN");
  if (!is_wanted) return;
  const std::string chosen =
      best < 0 ? "none" : fmt::format("'{}'", candidates[static_cast<size_t>(best)].name);
  fmt::print(stderr, "brim: choice: [{}] {}: {} of {} candidates; {}\n", op_name(), problem, chosen,
             candidates.size(), how.empty() ? "none could be timed" : how);
}

}  // namespace

bool can_queue(const Candidate& candidate, const Context& context) {
  bool is_queued = false;
  // Whatever was thrown: the stream may be in a capture, which has to be ended.
  try {
    is_queued = candidate.queue(context);
  } catch (const std::exception&) {
    is_queued = false;
  }
  if (!is_queued) (void)cudaGetLastError();  // a library that refuses may leave one
  return is_queued;
}

int choose(ChoiceFile& choices, const std::string& problem, std::span<const Candidate> candidates,
           Stream stream) {
  const auto number_of = [&](auto at) { return static_cast<int>(at - candidates.begin()); };
  if (const auto known = choices.find(problem)) {
    const auto found = std::ranges::find(candidates, *known, &Candidate::name);
    if (found != candidates.end() && can_queue(*found, {stream})) {
      explain(problem, candidates, number_of(found), "as an earlier run has measured");
      return number_of(found);
    }
  }
  if (!choices.are_kept()) {
    const auto first = std::ranges::find_if(
        candidates, [&](const Candidate& candidate) { return can_queue(candidate, {stream}); });
    const int chosen = first == candidates.end() ? -1 : number_of(first);
    explain(problem, candidates, chosen, "the first, as nothing is kept from run to run");
    return chosen;
  }
  std::string timed;
  const int best = [&] {
    const diag::Scope scope("measure algorithms", diag::Cause::compile);
    return fastest(candidates, stream, timed);
  }();
  explain(problem, candidates, best, timed);
  if (best >= 0) choices.keep(problem, candidates[static_cast<size_t>(best)].name);
  return best;
}

void leave_to_own(const std::string& problem, const DeviceError& error) {
  raise_if_lost("choosing an algorithm");
  (void)cudaGetLastError();
  warn(fmt::format("{}: brim's own kernel computes {}", error.what(), problem));
}

void NoRoom::begins(const char* library, const std::string& problem, const OutOfMemory& error) {
  calls_ = kCalls;
  if (std::exchange(warned_, true)) return;
  warn(
      fmt::format("[{}] {}'s algorithm for {} has no room for the {} bytes it works in ({} are "
                  "free): brim's own kernel computes it while that is so; use a smaller batch or "
                  "a higher Allocator::set_limit",
                  op_name(), library, problem, error.requested, error.free));
}

ChoiceFile& choices_of(int device, const std::string& library) {
  static std::mutex mutex;
  // Never destroyed, as the libraries that use them.
  static auto* all = new std::map<std::pair<int, std::string>, std::unique_ptr<ChoiceFile>>;
  const std::lock_guard lock(mutex);
  auto& file = (*all)[{device, library}];
  if (!file) {
    int driver = 0;
    BRIM_CUDA(cudaDriverGetVersion(&driver));
    file = std::make_unique<ChoiceFile>(cache_path("cuda_algorithms.json"),
                                        fmt::format("{}; driver {}; {}; brim {}; method {}",
                                                    runtime(DeviceKind::cuda).description(device),
                                                    driver, library, BRIM_VERSION, kMethod));
  }
  return *file;
}

}  // namespace brim::cuda
