#include "data/loader/loop_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/environment.h"
#include "data/loader/worker_parts.h"
#include "diag/account_access.h"
#include "diag/wait_sites.h"
#include "io/atomic_file.h"

namespace brim::data {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr double kStretch = 0.25, kWrite = 1;  // seconds
constexpr size_t kMostStretches = 256;         // then two become one
constexpr size_t kMostWaits = 16;              // that are told

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

struct Stretch {
  int64_t batches = 0;
  diag::Account account;

  void add(const Stretch& other) {
    batches += other.batches;
    account.wall += other.account.wall;
    for (size_t i = 0; i < account.seconds.size(); ++i)
      account.seconds[i] += other.account.seconds[i];
  }
};

Json to_json(const Stretch& s) {
  Json parts = Json::object();
  for (int i = 0; i < diag::kCauseCount; ++i)
    if (const double time = s.account.seconds[static_cast<size_t>(i)]; time > 0)
      parts[std::string(diag::name(static_cast<diag::Cause>(i)))] = time;
  return {{"batches", s.batches}, {"wall", s.account.wall}, {"seconds", parts}};
}

Json to_json(const diag::WaitSite& site) {
  Json stack = Json::array();
  for (void* const at : site.stack) {
    const diag::CodeAddress code = diag::code_address(at);
    stack.push_back({{"file", code.file}, {"address", code.address}, {"function", code.function}});
  }
  return {{"cause", diag::name(site.cause)},
          {"op", site.op},
          {"count", site.count},
          {"seconds", site.seconds},
          {"stack", stack}};
}

Json to_json(const WorkerAccount& worker) {
  Json json;
  for (const auto& [name, part] : kWorkerParts) json[name] = worker.*part;
  return json;
}

/// Of one thread. Throws what Accountant and the devices throw.
class LoopWatch {
 public:
  LoopWatch(const std::string& path, const std::vector<Device>& devices, const void* feed)
      : pid_(getpid()),
        path_(fmt::format("{}.{}", path, pid_)),
        device_(devices.empty() ? Device::cpu() : devices[0]),
        has_devices_(!devices.empty()),
        feed_(feed),
        before_(read()) {}
  /// A program is not disturbed by its last stretch.
  ~LoopWatch() {
    try {
      if (stretches_.empty()) end_stretch();
      write();
    } catch (const std::exception&) {  // it is told without the last second
    }
  }
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;

  const void* feed() const { return feed_; }
  bool has_devices() const { return has_devices_; }

  void took(const Loader* loader, int64_t batches) {
    batches_ += batches;
    const Clock::time_point now = Clock::now();
    if (seconds(stretch_began_, now) < kStretch) return;
    end_stretch();
    if (loader) workers_ = loader->worker_accounts();
    if (seconds(written_, now) >= kWrite) write();
  }

 private:
  struct Reading {
    Device device;
    diag::AccountAccess::OfThread of;
  };
  Reading read() {
    if (auto of = diag::AccountAccess::of_thread(device_)) return {device_, *of};
    if (!diag::AccountAccess::of_thread(Device::cpu())) own_.emplace(std::vector<Device>{device_});
    const Device device = own_ ? device_ : Device::cpu();
    return {device, diag::AccountAccess::of_thread(device).value()};
  }

  void end_stretch() {
    const Reading now = read();
    const bool goes_on = now.device == before_.device && now.of.accountant == before_.of.accountant;
    Stretch stretch{.batches = batches_, .account = now.of.account};
    stretch.account.wall -= before_.of.account.wall;
    // A device is known up to its newest record: where none came, the stretch goes on.
    if (goes_on && stretch.account.wall <= 0) return;
    for (size_t i = 0; i < stretch.account.seconds.size(); ++i) {
      double& time = stretch.account.seconds[i];
      time = std::max(time - before_.of.account.seconds[i], 0.0);
    }
    if (goes_on) keep(stretch);
    if (now.device != before_.device) stretches_.clear();  // they are not of the same
    before_ = now;
    batches_ = 0;
    stretch_began_ = Clock::now();
  }

  /// Together with others where there are very many.
  void keep(const Stretch& stretch) {
    if (!stretches_.empty() && in_last_ < in_each_) {
      stretches_.back().add(stretch);
      ++in_last_;
      return;
    }
    if (stretches_.size() == kMostStretches) {
      for (size_t i = 0; i < kMostStretches / 2; ++i) {
        stretches_[i] = stretches_[2 * i];
        stretches_[i].add(stretches_[2 * i + 1]);
      }
      stretches_.resize(kMostStretches / 2);
      in_each_ *= 2;
    }
    stretches_.push_back(stretch);
    in_last_ = 1;
  }

  /// Throws FileError.
  void write() {
    if (getpid() != pid_) return;  // a child of it
    Json json{{"schema", kLoopSchema}, {"device", before_.device.str()}};
    Json& stretches = json["stretches"] = Json::array();
    for (const Stretch& s : stretches_) stretches.push_back(to_json(s));
    json["worker_count"] = workers_.size();
    json["workers"] = to_json(sum(workers_));
    Json& waits = json["waits"] = Json::array();
    for (const diag::WaitSite& site : diag::wait_sites(kMostWaits)) waits.push_back(to_json(site));
    io::AtomicFile file(path_);
    file.write(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    file.commit(io::FolderSync::later);
    written_ = Clock::now();
  }

  const pid_t pid_;
  const std::string path_;
  const Device device_;
  const bool has_devices_;
  const void* const feed_;
  std::optional<diag::Accountant> own_;
  Reading before_;  // when the stretch began
  Clock::time_point stretch_began_ = Clock::now(), written_ = stretch_began_;
  int64_t batches_ = 0;  // since the stretch began
  std::vector<Stretch> stretches_;
  int in_each_ = 1, in_last_ = 0;
  std::vector<WorkerAccount> workers_;
};

/// "" where nothing is watched. Calls are noted from the start: an Accountant that is made before
/// the first batch has to know.
const std::string& watched_path() {
  static const std::string path = [] {
    std::string text = environment(kLoopVariable);
    if (!text.empty()) diag::note_waits(true);
    return text;
  }();
  return path;
}
const bool is_watching = !watched_path().empty();

thread_local int depth = 0;  // of calls, one in the other
thread_local std::unique_ptr<LoopWatch> watch;
std::atomic<bool> is_taken{false};  // by a thread

/// What the thread's watch does, which is given up where that fails.
template <class F>
void attempt(const F& action) noexcept {
  try {
    action();
  } catch (const std::exception&) {
    watch.reset();
  }
}

}  // namespace

LoaderCall::LoaderCall() noexcept { depth += is_watching ? 1 : 0; }

LoaderCall::LoaderCall(const std::vector<Device>& devices, const void* feed,
                       const Loader* loader) noexcept
    : LoaderCall() {
  if (!is_watching || depth > 1) return;
  feed_ = feed;
  loader_ = loader;
  attempt([&] {
    // A pass over a Loader, before there is a DeviceLoader, was no training.
    if (watch && !watch->has_devices() && !devices.empty()) {
      watch.reset();
      is_taken = false;
    }
    if (!watch && !is_taken.exchange(true))
      watch = std::make_unique<LoopWatch>(watched_path(), devices, feed);
  });
}

void LoaderCall::took(int64_t batches) noexcept {
  if (!feed_ || !watch) return;
  attempt([&] {
    if (watch->feed() == feed_) watch->took(loader_, batches);
  });
}

LoaderCall::~LoaderCall() { depth -= is_watching ? 1 : 0; }

}  // namespace brim::data
