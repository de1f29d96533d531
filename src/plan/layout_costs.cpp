// Times of launches in each memory format, and the file that keeps them.
#include <brim/core/threads.h>
#include <brim/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#if BRIM_HAVE_DNNL
#include <oneapi/dnnl/dnnl_version.h>
#endif

#include "backend/geometry.h"
#include "core/cache_file.h"
#include "core/context.h"
#include "core/plugin.h"
#include "core/runtime.h"
#include "plan/layout.h"

namespace brim::plan {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kVersion = 1;                // of the file; the kernels' speed is part of it
constexpr int kMostRounds = 4, kRuns = 2;  // the best run counts
constexpr int kQueued = 10;                // launches of a run on a device,
constexpr double kQueueBelow = 2e-3;       // if one is shorter than so many seconds
constexpr double kSettled = 0.1;           // rounds that differ by less agree
constexpr size_t kMostTimes = 100000;      // what a file may hold
constexpr double kLongest = 3600;          // seconds; more is damage

void warn(const std::string& line) {
  std::fputs(("brim: warning: [layout] " + line + "\n").c_str(), stderr);
}

/// The processor as Linux describes it.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string text, line;
  while (std::getline(info, line) && !line.empty())
    for (const char* field : {"cpu family", "model", "stepping", "cache size"})
      if (line.starts_with(field))
        if (const size_t colon = line.find(':'); colon != std::string::npos)
          text += (text.empty() ? "" : " ") + line.substr(std::min(colon + 2, line.size()));
  return text.empty() ? "unknown" : text;
}

/// What the times depend on, apart from the launch.
std::string machine(Device device) {
  if (!device.is_cpu())
    return fmt::format("{} {}; brim {}; {}", name(device.kind),
                       runtime(device.kind).description(device.index), BRIM_VERSION,
                       plugin(device.kind).path);
  std::string libraries = "none";
#if BRIM_HAVE_DNNL
  libraries =
      fmt::format("dnnl {}.{}.{}", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
#endif
  return fmt::format("{}; brim {}; {}; {} threads", processor(), BRIM_VERSION, libraries,
                     num_threads());
}

std::string text(Pair p) { return fmt::format("{}x{}", p.h, p.w); }

/// What a launch's time depends on: its name, its sizes, and its format.
std::string key_of(const Launch& launch, const char* format) {
  std::string key = fmt::format("{} {}", launch.name(), name(launch.dtype()));
  for (const Operand& o : launch.operands())
    key += o.tensor->defined() ? o.tensor->shape().str() : "-";
  if (const auto* g = launch.option<backend::ConvGeometry>())
    key += fmt::format(" s{} p{} d{} g{}", text(g->stride), text(g->padding), text(g->dilation),
                       g->groups);
  if (const auto* g = launch.option<backend::PoolGeometry>())
    key += fmt::format(" k{} s{} p{} d{}", text(g->kernel), text(g->stride), text(g->padding),
                       text(g->dilation));
  return key + " " + format;
}

Ref<Storage> zeros(size_t bytes, Device device) {
  Tensor memory = Tensor::empty({static_cast<int64_t>(bytes)}, DType::u8, device);
  memory.fill_(0);
  return memory.storage();
}

/// Puts memory of zeros behind the launch's tensors, and takes it away again.
class Borrowed {
 public:
  explicit Borrowed(Launch& launch) : launch_(launch) {
    std::map<const Storage*, Ref<Storage>> memory;
    for (const Operand& o : launch.operands()) {
      before_.push_back(*o.tensor);
      if (!o.tensor->defined()) continue;
      const Ref<Storage>& storage = o.tensor->storage();
      Ref<Storage>& own = memory[storage.get()];
      if (!own) own = zeros(storage->bytes(), storage->device());
      *o.tensor = o.tensor->alias(o.tensor->shape(), o.tensor->strides(), o.tensor->offset());
      o.tensor->impl()->storage = own;
    }
  }
  ~Borrowed() {
    for (size_t i = 0; i < before_.size(); ++i) *launch_.operands()[i].tensor = before_[i];
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  Launch& launch_;
  std::vector<Tensor> before_;
};

using Machines = std::map<std::string, std::map<std::string, double>>;

/// Adds the file's times to `all`. False, and `why`, if it cannot be trusted; a file that is not
/// there has none.
bool read_times(const std::string& path, Machines& all, std::string& why) {
  std::error_code error;
  if (!fs::exists(path, error)) return true;
  constexpr uintmax_t kMostBytes = 32 << 20;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMostBytes || error) {
    why = "not a file of times";
    return false;
  }
  std::ifstream file(path);
  const Json root = Json::parse(file, nullptr, false);
  const auto damaged = [&](const char* what) {
    why = what;
    return false;
  };
  if (!root.is_object()) return damaged("not JSON");
  const auto version = root.find("version"), machines = root.find("machines");
  if (version == root.end() || !version->is_number_integer() || *version != kVersion)
    return damaged("of another version");
  if (machines == root.end() || !machines->is_object()) return damaged("has no machines");
  size_t count = 0;
  for (const auto& [name, times] : machines->items()) {
    if (!times.is_object()) return damaged("a machine has no times");
    for (const auto& [key, seconds] : times.items()) {
      if (!seconds.is_number()) return damaged("a time is no number");
      const double value = seconds.get<double>();
      if (!(value >= 0 && value < kLongest) || ++count > kMostTimes)
        return damaged("a time cannot be");
      all[name][key] = value;
    }
  }
  return true;
}

}  // namespace

LayoutCosts::LayoutCosts(Device device) : LayoutCosts(cache_path("layout.json"), device) {}

LayoutCosts::LayoutCosts(std::string path, Device device)
    : path_(std::move(path)), machine_(machine(device)) {
  std::string why;
  if (path_.empty() || read_times(path_, times_, why)) return;
  times_.clear();
  warn(fmt::format("{}: {}; measuring again", path_, why));
}

void LayoutCosts::save() const {
  if (measured_ == 0 || path_.empty()) return;
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  const FileLock lock(path_ + ".lock");
  // What other runs have measured since the file was read stays.
  Machines all = times_, found;
  std::string why;
  if (!read_times(path_, found, why)) found.clear();
  for (auto& [machine, times] : found) all[machine].merge(times);
  size_t count = 0;
  for (const auto& [machine, times] : all) count += times.size();
  const Json root{{"version", kVersion}, {"machines", count <= kMostTimes ? all : times_}};
  if (!replace_file(path_, root.dump(1) + '\n'))
    warn(fmt::format("cannot write {}; the next run measures again", path_));
}

double LayoutCosts::measure(Launch& launch) {
  using Clock = std::chrono::steady_clock;
  const Borrowed memory(launch);
  const Context context = Context::current(launch.device());
  const auto seconds = [&](int runs) {
    const auto start = Clock::now();
    for (int i = 0; i < runs; ++i) launch.run(context);
    context.stream.synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count() / runs;
  };
  double best = kLongest / 2;
  (void)seconds(1);  // the first one chooses algorithms, and waits for what was queued before
  // A device's queue hides what the host does for a launch, as in a step.
  const bool queue = !launch.device().is_cpu() && seconds(1) < kQueueBelow;
  for (int i = 0; i < kRuns; ++i) best = std::min(best, seconds(queue ? kQueued : 1));
  ++measured_;
  return best;
}

double LayoutCosts::of(Launch& launch, const Activations& activations, MemoryFormat format) {
  Times& times = times_[machine_];
  const auto key = [&](MemoryFormat f) { return key_of(launch, name(f)); };
  const auto known = [&](MemoryFormat f) { return times.contains(key(f)); };
  if (!std::all_of(activations.formats.begin(), activations.formats.end(), known)) {
    // In turns, so that a change of the machine's speed meets all formats, and on until the times
    // repeat themselves: what else runs on the machine must not decide.
    for (const MemoryFormat f : activations.formats) times.erase(key(f));
    bool settled = false;
    for (int round = 0; round < kMostRounds && !settled; ++round) {
      settled = round > 0;
      for (const MemoryFormat f : activations.formats) {
        arrange(launch, activations, f);
        const double seconds = measure(launch);
        double& best = times.try_emplace(key(f), seconds).first->second;
        settled &= std::abs(seconds - best) < kSettled * best;
        best = std::min(best, seconds);
      }
    }
    arrange(launch, activations, MemoryFormat::nchw);
  }
  return times[key(format)];
}

double LayoutCosts::of_conversion(const Shape& shape, DType dtype, Device device, MemoryFormat from,
                                  MemoryFormat to) {
  Program scratch;
  scratch.device = device;
  const Tensor source = scratch.make(shape, dtype, from);
  Tensor target = scratch.make(shape, dtype, to);
  const std::unique_ptr<Launch> copy = conversion(source, target);
  const std::string key = key_of(*copy, fmt::format("{} to {}", name(from), name(to)).c_str());
  Times& times = times_[machine_];
  if (const auto found = times.find(key); found != times.end()) return found->second;
  return times[key] = measure(*copy);
}

}  // namespace brim::plan
