// See measure.h.
#include "backend/cuda/libraries/measure.h"

#include <brim/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "backend/cuda/runtime.h"
#include "core/runtime.h"

namespace brim::cuda {
namespace {

constexpr int kRounds = 3, kRuns = 4;  // the best round counts
constexpr double kLong = 2;            // milliseconds: a run that takes longer is a round
constexpr double kClearly = 0.97;      // of the time of those before: faster is no accident

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

/// Milliseconds of one run; nothing if it is refused.
std::optional<double> time_of(const Candidate& candidate, Stream stream) {
  Event begin, end;
  if (!candidate.queue()) return {};  // a library loads what it needs
  double best = std::numeric_limits<double>::infinity();
  int runs = 1;
  for (int round = 0; round < kRounds; ++round) {
    begin.record(stream);
    for (int i = 0; i < runs; ++i)
      if (!candidate.queue()) return {};
    end.record(stream);
    best = std::min(best, begin.until(end) / runs);
    if (round == 0 && best < kLong) runs = kRuns;
  }
  return best;
}

}  // namespace

bool is_captured(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  BRIM_CUDA(cudaStreamIsCapturing(native(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

int choose(ChoiceFile& choices, const std::string& problem, std::span<const Candidate> candidates,
           Stream stream) {
  if (const auto known = choices.find(problem)) {
    const auto found = std::ranges::find(candidates, *known, &Candidate::name);
    if (found != candidates.end() && found->queue())
      return static_cast<int>(found - candidates.begin());
  }
  int best = -1;
  double least = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!choices.are_kept()) {
      if (candidates[i].queue()) return static_cast<int>(i);
      continue;
    }
    const std::optional<double> time = time_of(candidates[i], stream);
    if (!time || (best >= 0 && *time >= kClearly * least)) continue;
    best = static_cast<int>(i);
    least = *time;
  }
  if (best >= 0 && choices.are_kept())
    choices.keep(problem, candidates[static_cast<size_t>(best)].name);
  return best;
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
    file = std::make_unique<ChoiceFile>(
        cache_path("cuda_algorithms.json"),
        fmt::format("{}; driver {}; {}; brim {}", runtime(DeviceKind::cuda).description(device),
                    driver, library, BRIM_VERSION));
  }
  return *file;
}

}  // namespace brim::cuda
