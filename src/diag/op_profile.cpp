#include <brim/diag/op_profile.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>

#include "diag/op_records.h"
#include "diag/op_sink.h"
#include "diag/span.h"

namespace brim::diag {

std::atomic<int> counting_op_profiles{0};

namespace {

struct CountedOp {
  std::string shapes;
  int64_t calls = 0;
  uint64_t ticks = 0;
};

using WindowTicks = std::pair<uint64_t, uint64_t>;  // begin and end

std::mutex op_profiles_mutex;  // of the list, and all that its profiles have
std::vector<OpProfile::State*>& op_profiles() {
  static auto* all = new std::vector<OpProfile::State*>;
  return *all;
}

}  // namespace

struct OpProfile::State {
  explicit State(Device of) : device(of) {}

  const Device device;
  bool counts = false;
  std::deque<WindowTicks> windows;  // the newest may end in the future
  std::map<std::tuple<std::string_view, DType, double, double>, CountedOp> ops;  // as OpCall
};

OpProfile::OpProfile(Device device) : state_(std::make_unique<State>(device)) {
  (void)ticks_per_us();  // measured before anything is timed
  const std::lock_guard lock(op_profiles_mutex);
  op_profiles().push_back(state_.get());
}

OpProfile::~OpProfile() {
  stop();
  const std::lock_guard lock(op_profiles_mutex);
  std::erase(op_profiles(), state_.get());
}

void OpProfile::start() {
  const std::lock_guard lock(op_profiles_mutex);
  if (std::exchange(state_->counts, true)) return;
  constexpr size_t kMaxWindows = 64;  // records of older ones have come
  if (state_->windows.size() == kMaxWindows) state_->windows.pop_front();
  state_->windows.emplace_back(ticks(), ~uint64_t{});
  ++counting_op_profiles;
}

void OpProfile::stop() {
  const std::lock_guard lock(op_profiles_mutex);
  if (!std::exchange(state_->counts, false)) return;
  state_->windows.back().second = ticks();
  --counting_op_profiles;
}

std::vector<OpTime> OpProfile::read() const {
  std::vector<OpTime> times;
  const double seconds = 1e-6 / ticks_per_us();
  {
    const std::lock_guard lock(op_profiles_mutex);
    for (const auto& [key, op] : state_->ops)
      times.push_back({.name = std::string(std::get<0>(key)),
                       .dtype = std::get<1>(key),
                       .shapes = op.shapes,
                       .operations = std::get<2>(key),
                       .bytes = std::get<3>(key),
                       .calls = op.calls,
                       .seconds = static_cast<double>(op.ticks) * seconds});
  }
  std::ranges::sort(times, [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  return times;
}

void op_ran(Device device, const OpCall& call, uint64_t ticks,
            const std::function<std::string()>& shapes) {
  const std::lock_guard lock(op_profiles_mutex);
  for (OpProfile::State* const state : op_profiles()) {
    if (state->device != device || !state->counts) continue;
    CountedOp& op = state->ops[{call.name, call.dtype, call.operations, call.bytes}];
    if (op.shapes.empty() && shapes) op.shapes = shapes();
    ++op.calls;
    op.ticks += ticks;
  }
}

void op_recorded(Device device, const char* name, uint64_t begin, uint64_t end) {
  const std::lock_guard lock(op_profiles_mutex);
  for (OpProfile::State* const state : op_profiles()) {
    if (state->device != device) continue;
    const auto& windows = state->windows;
    const auto next = std::ranges::upper_bound(windows, begin, {}, &WindowTicks::first);
    if (next == windows.begin() || begin >= std::prev(next)->second) continue;
    CountedOp& op = state->ops[{name, DType::f32, 0.0, 0.0}];
    ++op.calls;
    op.ticks += end - begin;
  }
}

}  // namespace brim::diag
