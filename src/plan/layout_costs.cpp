// Times of launches in each memory format, and the file that keeps them.
#include <brim/core/tf32.h>
#include <brim/core/threads.h>
#include <brim/ops/create.h>
#include <brim/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>

#if BRIM_HAVE_DNNL
#include <oneapi/dnnl/dnnl_version.h>
#endif

#include "backend/cpu/runtime/isa.h"
#include "backend/options/geometry.h"
#include "core/cache_file.h"
#include "core/context.h"
#include "core/library_versions.h"
#include "core/plugin.h"
#include "core/printable.h"
#include "core/runtime.h"
#include "plan/layout.h"

namespace brim::plan {
namespace {

constexpr int kMaxRounds = 4, kRuns = 2;  // the best run counts
constexpr int kQueued = 10;               // launches of a run on a device,
constexpr double kQueueBelow = 2e-3;      // if one is shorter than so many seconds
constexpr int kUntilCaptured = 2;         // such runs make them one graph, where there are graphs
constexpr double kSettled = 0.1;          // rounds that differ by less agree

void warn(const std::string& line) { warn_on_stderr("[layout] " + line); }

/// The processor as Linux describes it.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string text, line;
  while (std::getline(info, line) && !line.empty())
    for (const char* field : {"cpu family", "model", "stepping", "cache size"})
      if (line.starts_with(field))
        if (const size_t colon = line.find(':'); colon != std::string::npos)
          text.append(text.empty() ? "" : " ").append(line, std::min(colon + 2, line.size()));
  return text.empty() ? "unknown" : text;
}

/// What the times depend on, apart from the launch.
std::string machine(Device device) {
  const std::string versions = library_versions(device.kind);
  if (!device.is_cpu())
    return fmt::format("{} {}; brim {}; {}", name(device.kind),
                       runtime(device.kind).description(device.index), BRIM_VERSION,
                       plugin(device.kind).path) +
           (versions.empty() ? "" : "; " + versions) + (Tf32::allowed() ? "; tf32" : "");
  std::string libraries = "none";
#if BRIM_HAVE_DNNL
  libraries =
      fmt::format("dnnl {}.{}.{}", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
#endif
  return fmt::format("{}; {}; brim {}; {}; {} threads", processor(), cpu::arithmetic(),
                     BRIM_VERSION, libraries, num_threads());
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

/// Memory as large as the tensor's, on its device. Zeros; but floats of devices are numbers around
/// 1 that differ, for libraries there are only chosen where results show what they compute, and
/// bytes are 255: as indices within pooled windows they name no element, where 0 may be padding.
Ref<Storage> memory_for(const Tensor& t) {
  const size_t bytes = t.storage()->bytes(), size = size_of(t.dtype());
  if (t.device().is_cpu() || !is_floating(t.dtype()) || bytes == 0) {
    Tensor memory = Tensor::empty({static_cast<int64_t>(bytes)}, DType::u8, t.device());
    memory.fill_(t.dtype() == DType::u8 ? 255 : 0);
    return memory.storage();
  }
  const auto count = static_cast<int64_t>((bytes + size - 1) / size);
  Tensor memory = Tensor::empty({count}, t.dtype(), t.device());
  int64_t done = std::min<int64_t>(count, 4093);
  memory.slice(0, 0, done).copy_(linspace(0.5, 1.5, done).to(t.dtype()));
  for (; done < count; done *= 2) {
    const int64_t more = std::min(done, count - done);
    memory.slice(0, done, done + more).copy_(memory.slice(0, 0, more));
  }
  return memory.storage();
}

/// Whether a launch reads positions in memory from it, as the columns of a sparse weight: they must
/// be what they are.
bool is_index(const Operand& o) {
  return !o.writes && o.tensor->dtype() == DType::i32 && o.tensor->storage()->data() != nullptr;
}

/// Puts memory of its own behind the launch's tensors, and takes it away again.
class Borrowed {
 public:
  explicit Borrowed(Launch& launch) : launch_(launch) {
    std::map<const Storage*, Ref<Storage>> memory;
    for (const Operand& o : launch.operands()) {
      before_.push_back(*o.tensor);
      if (!o.tensor->defined() || is_index(o)) continue;
      const Ref<Storage>& storage = o.tensor->storage();
      Ref<Storage>& own = memory[storage.get()];
      if (!own) own = memory_for(*o.tensor);
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

}  // namespace

LayoutCosts::LayoutCosts(Device device) : LayoutCosts(cache_path("layout.json"), device) {}

LayoutCosts::LayoutCosts(std::string path, Device device)
    : path_(std::move(path)), machine_(machine(device)) {
  std::string why;
  if (read_measured(path_, times_, why)) return;
  warn(fmt::format("{}: {}; measuring again", path_, why));
}

void LayoutCosts::save() const {
  if (measured_ == 0 || path_.empty()) return;
  Measured<double> all = times_;
  if (!write_measured(path_, all, machine_))
    warn(fmt::format("cannot write {}; the next run measures again", path_));
}

double LayoutCosts::measure(Launch& launch) {
  using Clock = std::chrono::steady_clock;
  const Borrowed memory(launch);
  const Stream stream = Stream::current(launch.device());
  // Scratch memory of its own, which stays where it is while a graph knows it.
  ScratchStack scratch;
  const Context context{stream, &scratch};
  std::shared_ptr<void> kept;
  const auto seconds = [&](int runs) {
    const auto start = Clock::now();
    runtime(stream.device.kind)
        .launch_as_one(stream,
                       {.steps = runs,
                        .queue =
                            [&](int) {
                              launch.run(context);
                              return true;
                            }},
                       kept);
    stream.synchronize();
    return std::chrono::duration<double>(Clock::now() - start).count() / runs;
  };
  (void)seconds(1);  // the first one chooses algorithms, and waits for what was queued before
  const size_t bytes = std::max<size_t>(scratch.max_bytes(), 1);
  const Workspace workspace(bytes, stream, nullptr);
  scratch.rebind(workspace.as<void>(), bytes);
  // A device's queue hides what the host does for a launch, as in a step; a graph has next to none.
  int runs = 1;
  if (!stream.device.is_cpu() && seconds(1) < kQueueBelow) {
    runs = kQueued;
    for (int i = 0; i < kUntilCaptured; ++i) (void)seconds(runs);
  }
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) best = std::min(best, seconds(runs));
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
    for (int round = 0; round < kMaxRounds && !settled; ++round) {
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

double LayoutCosts::of_conversion(const Shape& shape, Device device, Layout from, Layout to) {
  Program scratch;
  scratch.device = device;
  const Tensor source = scratch.make(shape, from.dtype, from.format);
  Tensor target = scratch.make(shape, to.dtype, to.format);
  const std::unique_ptr<Launch> copy = conversion(source, target);
  const std::string way = fmt::format("{} to {}", name(from.format), name(to.format));
  std::string key = key_of(*copy, way.c_str());
  if (from.dtype != to.dtype) key += fmt::format(" of {}", name(from.dtype));
  Times& times = times_[machine_];
  if (const auto found = times.find(key); found != times.end()) return found->second;
  return times[key] = measure(*copy);
}

}  // namespace brim::plan
