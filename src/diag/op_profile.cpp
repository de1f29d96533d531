#include <brim/diag/op_profile.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>

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
  if (!std::exchange(state_->counts, true)) ++counting_op_profiles;
}

void OpProfile::stop() {
  const std::lock_guard lock(op_profiles_mutex);
  if (std::exchange(state_->counts, false)) --counting_op_profiles;
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

}  // namespace brim::diag
