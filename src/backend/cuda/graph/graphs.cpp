// See graphs.h. CUDA C++ Programming Guide, section "CUDA Graphs" (stream capture).
#include "backend/cuda/graph/graphs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "backend/cuda/graph/capture.h"
#include "backend/cuda/graph/graph_parameters.h"
#include "backend/cuda/observe/activity.h"
#include "backend/cuda/runtime/runtime.h"
#include "backend/cuda/runtime/stream_check.h"
#include "backend/queued_op.h"
#include "core/hash.h"

namespace brim::cuda {
namespace {

constexpr int64_t kWarmUps = 2;  // first calls: libraries and scratch get their memory
constexpr int64_t kPause = 100;  // calls after a failure; twice as many after each further one
constexpr int kMaxDoublings = 20;
/// Training has two slots; `brim bench` takes turns with 16 batches.
constexpr size_t kMaxGraphs = 16;
/// Signatures. If they were more than graphs, some would be captured in turns, for nothing.
constexpr size_t kRemembered = kMaxGraphs;

uint64_t hash(Stream stream, int steps, const std::vector<uint64_t>& words) {
  const uint64_t seed = splitmix64(static_cast<uint64_t>(stream.id)) + static_cast<uint64_t>(steps);
  return xxh64(words.data(), words.size() * sizeof(uint64_t), seed);
}

bool queue_all(const RepeatedWork& work, GraphParameterScope* scope = nullptr) {
  bool own = true;
  for (int step = 0; step < work.steps; ++step) {
    if (scope) scope->begin_step(step);
    own &= work.queue(step);
  }
  return own;
}

}  // namespace

Graphs::~Graphs() {
  for (const Entry& e : entries_) destroy(e);
}

void Graphs::destroy(const Entry& entry) {
  if (entry.exec) (void)cudaGraphExecDestroy(entry.exec);
  (void)cudaGraphDestroy(entry.graph);
}

cudaError_t Graphs::make_ready(Entry& entry) {
  const uint64_t changes = activity_changes();
  if (entry.exec && entry.changes == changes) return cudaSuccess;
  cudaGraphExec_t exec = nullptr;
  const cudaError_t made =
      with_room(entry.stream, [&] { return cudaGraphInstantiate(&exec, entry.graph, 0); });
  if (made != cudaSuccess) return made;
  if (entry.exec) (void)cudaGraphExecDestroy(entry.exec);
  entry.exec = exec;
  entry.changes = changes;
  return cudaSuccess;
}

RepeatedStats Graphs::stats() const {
  RepeatedStats s = stats_;
  s.why_not = failure_.empty() ? unread_ : failure_;
  s.graphs = static_cast<int64_t>(entries_.size());
  if (!entries_.empty())
    s.nodes = static_cast<int64_t>(entries_.front().nodes) / entries_.front().steps;
  return s;
}

void Graphs::put_off(const std::string& why) {
  (void)cudaGetLastError();
  pause_ = kPause << std::min(failures_, kMaxDoublings);
  if (failures_++ == 0)
    fmt::print(
        stderr,
        "brim: warning: [cuda] a step is not captured as a graph: {}; its launches are queued "
        "one by one, and after {} launches it is tried again\n",
        why, pause_);
  failure_ = why;
}

std::vector<uint64_t> Graphs::signature_of(const RepeatedWork& work) const {
  std::vector<uint64_t> signature(work.signature.begin(), work.signature.end());
  if (values_sign_) signature.insert(signature.end(), work.values.begin(), work.values.end());
  return signature;
}

bool Graphs::comes_back(Stream stream, int steps, const std::vector<uint64_t>& signature) {
  const uint64_t h = hash(stream, steps, signature);
  if (std::ranges::find(seen_, h) != seen_.end()) return true;
  if (seen_.size() == kRemembered) seen_.erase(seen_.begin());
  seen_.push_back(h);
  return false;
}

cudaGraph_t Graphs::captured(Stream stream, const std::function<void()>& queue) {
  try {
    Capture capture(stream);
    queue();
    cudaError_t ended = cudaSuccess;
    if (const cudaGraph_t graph = capture.end(ended)) return graph;
    put_off(cudaGetErrorString(ended));
  } catch (const std::exception& error) {
    put_off(error.what());
  }
  return nullptr;
}

bool Graphs::capture(Stream stream, const RepeatedWork& work, std::vector<uint64_t> signature) {
  Entry entry{stream, work.steps, std::move(signature)};
  if (!values_sign_ && !work.values.empty()) {
    const StreamGuard guard(stream);
    entry.parameters = Storage::allocate(work.values.size_bytes(), stream.device);
  }
  bool own = false;
  const char* unread = nullptr;
  TouchCollection collected;
  entry.graph = captured(stream, [&] {
    if (!entry.parameters) {
      own = queue_all(work);
      return;
    }
    GraphParameterScope scope(work, static_cast<uint64_t*>(entry.parameters->data()));
    own = queue_all(work, &scope);
    unread = scope.unread();
  });
  if (!entry.graph) return false;
  cudaError_t made = cudaSuccess;
  if (own && !unread) {
    made = cudaGraphGetNodes(entry.graph, nullptr, &entry.nodes);
    if (made == cudaSuccess) made = make_ready(entry);
  }
  if (unread) {
    values_sign_ = true;
    unread_ = fmt::format("'{}' takes a number that changes from the host", unread);
  }
  if (made != cudaSuccess) put_off(cudaGetErrorString(made));
  if (!entry.exec) {
    destroy(entry);
    return false;
  }
  if (entries_.size() == kMaxGraphs) {
    destroy(entries_.back());
    entries_.pop_back();
  }
  entry.touches = std::move(collected.touches);
  entries_.push_front(std::move(entry));
  failures_ = 0;
  failure_.clear();
  return true;
}

/// Writes from the first number that differs to the last.
void Graphs::renew(Entry& entry, const RepeatedWork& work) {
  if (!entry.parameters) return;
  const bool fresh = entry.written.empty();
  size_t begin = 0, end = work.values.size();
  if (!fresh) {
    while (begin < end && entry.written[begin] == work.values[begin]) ++begin;
    while (end > begin && entry.written[end - 1] == work.values[end - 1]) --end;
  }
  if (begin == end) return;
  write_words(entry.stream, static_cast<uint64_t*>(entry.parameters->data()) + begin,
              work.values.subspan(begin, end - begin));
  entry.written.assign(work.values.begin(), work.values.end());
  ++stats_.renewed;
}

void Graphs::run(Stream stream, const RepeatedWork& work) {
  std::vector<uint64_t> signature = signature_of(work);
  const auto found = std::ranges::find_if(entries_, [&](const Entry& e) {
    return e.stream == stream && e.steps == work.steps && e.signature == signature;
  });
  const DeviceGuard guard(stream.device.index);
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    const bool seen = comes_back(stream, work.steps, signature);
    const bool pauses = pause_ > 0 && pause_-- > 0;
    if (pauses || !seen || stats_.queued < kWarmUps ||
        !capture(stream, work, std::move(signature))) {
      ++stats_.queued;
      (void)queue_all(work);
      return;
    }
  }
  Entry& entry = entries_.front();
  const backend::QueuedOp op("a compiled step's graph");
  if (checker()) check_work(stream, backend::queued_op, entry.touches);
  renew(entry, work);
  check(make_ready(entry), "cudaGraphInstantiate");
  const cudaError_t launched =
      with_room(stream, [&] { return cudaGraphLaunch(entry.exec, native(stream)); });
  note_queued(stream.device.index);  // which also marks where the graph ends
  check(launched, "cudaGraphLaunch");
  ++stats_.replayed;
}

}  // namespace brim::cuda
