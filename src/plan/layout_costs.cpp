// Times of launches in each memory format, and the file that keeps them.
#include <brim/core/tf32.h>
#include <brim/core/threads.h>
#include <brim/version.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>

#if BRIM_HAVE_DNNL
#include <oneapi/dnnl/dnnl_version.h>
#endif

#include "backend/cpu/runtime/isa.h"
#include "backend/options/geometry.h"
#include "core/cache_file.h"
#include "core/library_versions.h"
#include "core/plugin.h"
#include "core/printable.h"
#include "core/runtime.h"
#include "plan/launch_time.h"
#include "plan/layout.h"

namespace brim::plan {
namespace {

constexpr int kMaxRounds = 4;
constexpr double kSettled = 0.1;  // rounds that differ by less agree

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
  ++measured_;
  return launch_time(launch);
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
