#include "command/top/gpu_watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "core/clock.h"
#include "core/start_thread.h"
#include "diag/gpu_sensor.h"

namespace brim::top {
namespace {

constexpr double kOldSeconds = 3, kGoodbyeSeconds = 1;

std::chrono::duration<double> duration_of(double seconds) {
  return std::chrono::duration<double>(seconds);
}

struct Card {
  Device device;
  std::string uuid;
  diag::GpuReading reading;
  std::vector<diag::GpuProcess> processes;
  double asked = 0;          // when it was first asked
  std::optional<double> at;  // when it last answered
};

}  // namespace

struct GpuWatch::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false, found = false;
  int running = 0;  // threads
  std::vector<Card> cards;

  void watch(size_t index, double period) {
    std::unique_lock lock(mutex);
    const Device device = cards[index].device;
    diag::GpuSensor& sensor = *diag::gpu_sensor(device.kind);
    lock.unlock();
    std::string uuid = sensor.uuid(device.index);
    lock.lock();
    cards[index].uuid = std::move(uuid);
    while (!stopping) {
      lock.unlock();
      diag::GpuReading reading = sensor.read(device.index);
      std::vector<diag::GpuProcess> processes = sensor.processes(device.index);
      lock.lock();
      cards[index].processes = std::move(processes);
      cards[index].reading = std::move(reading);
      cards[index].at = steady_seconds();
      changed.notify_all();
      changed.wait_for(lock, duration_of(period), [&] { return stopping; });
    }
  }
  bool all_read() const {
    return found && std::ranges::all_of(cards, [](const Card& c) { return c.at.has_value(); });
  }
};

namespace {

/// Runs `work` in a thread that nobody joins; it shares the state that it works on. Where the
/// system refuses the thread, its cards do not answer.
template <class S, class F>
void start_detached(const std::shared_ptr<S>& state, const F& work) {
  {
    const std::lock_guard lock(state->mutex);
    ++state->running;
  }
  const auto body = [state, work] {
    work();
    const std::lock_guard lock(state->mutex);
    --state->running;
    state->changed.notify_all();
  };
  try {
    start_thread([&] { return std::thread(body); }).detach();
  } catch (const Error&) {
    const std::lock_guard lock(state->mutex);
    --state->running;
  }
}

}  // namespace

GpuWatch::GpuWatch(std::function<std::vector<Device>()> find, double period)
    : state_(std::make_shared<State>()) {
  start_detached(state_, [s = state_, find = std::move(find), period] {
    const std::vector<Device> devices = find();
    {
      const std::lock_guard lock(s->mutex);
      for (const Device device : devices)
        if (diag::gpu_sensor(device.kind))
          s->cards.push_back({.device = device, .asked = steady_seconds()});
      s->found = true;
      s->changed.notify_all();
    }
    for (size_t i = 0; i < s->cards.size(); ++i)
      start_detached(s, [s, i, period] { s->watch(i, period); });
  });
}

GpuWatch::~GpuWatch() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, duration_of(kGoodbyeSeconds),
                           [&] { return state_->running == 0; });
}

std::vector<Gpu> GpuWatch::read() const {
  const std::lock_guard lock(state_->mutex);
  const double now = steady_seconds();
  std::vector<Gpu> gpus;
  for (const Card& card : state_->cards) {
    const double age = now - card.at.value_or(card.asked);
    gpus.push_back({.device = card.device.str(),
                    .uuid = card.uuid,
                    .reading = card.reading,
                    .processes = card.processes,
                    .age = age,
                    .answers = age <= kOldSeconds});
  }
  return gpus;
}

void GpuWatch::wait_for_first(double seconds) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, duration_of(seconds), [&] { return state_->all_read(); });
}

}  // namespace brim::top
