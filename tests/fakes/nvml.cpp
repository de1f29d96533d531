// An NVML of a machine with three GPUs, for tests: the emulation's two, after one that CUDA does
// not show, so that numbers differ and PCI bus ids decide. The second has no sensors but a few.
// Built as libnvidia-ml.so.1. BRIM_FAKE_NVML: "refuse" (nvmlInit fails). BRIM_FAKE_NVML_USED (GiB),
// _LOAD (percent) and _TEMPERATURE hold values of the emulation's two, "20,-": "-" is no sensor,
// and "hangs" does not answer for half a minute.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "backend/cuda/observe/nvml_api.h"

namespace {

using namespace brim::cuda::nvml;

constexpr Return kUninitialized = 1, kNotSupported = 3, kNotFound = 6, kDriverNotLoaded = 9;
constexpr const char* kBusIds[] = {"00000000:01:00.0", "00000000:10:00.0", "00000000:11:00.0"};

bool initialised = false;
int samples_taken = 0;

Handle handle_of(size_t index) { return reinterpret_cast<Handle>(index + 1); }
/// Whether `device` is the emulation's first.
bool first(Handle device) { return initialised && device == handle_of(1); }
/// What `variable` says of `device`, `otherwise` without it; kNotSupported for "-".
Return say(const char* variable, Handle device, unsigned otherwise, unsigned* value) {
  *value = otherwise;
  const char* list = std::getenv(variable);
  if (!list) return kSuccess;
  std::string text = list;
  const size_t comma = text.find(',');
  text = device == handle_of(1) ? text.substr(0, comma) : text.substr(comma + 1);
  if (text == "-") return kNotSupported;
  if (text == "hangs") return sleep(30), kNotSupported;
  *value = static_cast<unsigned>(std::stoul(text));
  return kSuccess;
}
Return give(unsigned* to, unsigned value) {
  *to = value;
  return kSuccess;
}

}  // namespace

extern "C" {

Return nvmlInit_v2() {
  const char* mode = std::getenv("BRIM_FAKE_NVML");
  if (mode && std::string(mode) == "refuse") return kDriverNotLoaded;
  initialised = true;
  return kSuccess;
}
const char* nvmlErrorString(Return result) {
  return result == kDriverNotLoaded ? "Driver Not Loaded" : "Unknown Error";
}
Return nvmlDeviceGetHandleByPciBusId_v2(const char* id, Handle* device) {
  if (!initialised) return kUninitialized;
  for (size_t i = 0; i < 3; ++i) {
    // The domain may have four digits or eight.
    if (std::strcmp(kBusIds[i] + 4, id) != 0 && std::strcmp(kBusIds[i], id) != 0) continue;
    *device = handle_of(i);
    return kSuccess;
  }
  return kNotFound;
}
Return nvmlDeviceGetUtilizationRates(Handle device, Utilization* u) {
  u->memory = 40;
  return say("BRIM_FAKE_NVML_LOAD", device, first(device) ? 97 : 1, &u->gpu);
}
Return nvmlDeviceGetMemoryInfo(Handle device, Memory* m) {
  unsigned used = 0;
  const Return result = say("BRIM_FAKE_NVML_USED", device, 20, &used);
  *m = {80ULL << 30, (80ULL - used) << 30, static_cast<unsigned long long>(used) << 30};
  return result;
}
Return nvmlDeviceGetTemperature(Handle device, int sensor, unsigned* t) {
  return sensor != kTemperatureGpu
             ? kNotSupported
             : say("BRIM_FAKE_NVML_TEMPERATURE", device, first(device) ? 64 : 30, t);
}
Return nvmlDeviceGetPowerUsage(Handle device, unsigned* milliwatts) {
  return first(device) ? give(milliwatts, 698'500) : kNotSupported;
}
Return nvmlDeviceGetEnforcedPowerLimit(Handle device, unsigned* milliwatts) {
  return first(device) ? give(milliwatts, 700'000) : kNotSupported;
}
Return nvmlDeviceGetTotalEnergyConsumption(Handle device, unsigned long long* millijoules) {
  static std::atomic<unsigned long long> used{1'000'000};  // 7 J from call to call
  if (!first(device)) return kNotSupported;
  *millijoules = used += 7000;
  return kSuccess;
}
Return nvmlDeviceGetFanSpeed(Handle device, unsigned* percent) {
  return first(device) ? give(percent, 55) : kNotSupported;
}
Return nvmlDeviceGetPcieThroughput(Handle device, int counter, unsigned* kilobytes) {
  return give(kilobytes, (counter == kPcieIn ? 3000 : 2000) + (first(device) ? 900 : 0));
}
Return nvmlDeviceGetTotalEccErrors(Handle device, int kind, int since, unsigned long long* count) {
  if (!first(device) || since != kVolatileEcc) return kNotSupported;
  *count = kind == kCorrected ? 12 : 1;
  return kSuccess;
}
/// Of the first GPU: process 4242, and the one that asks, of whose memory nothing is known.
Return nvmlDeviceGetComputeRunningProcesses_v3(Handle device, unsigned* count, Process* list) {
  const unsigned room = *count;
  *count = first(device) ? 2 : 0;
  if (room < *count) return kInsufficientSize;
  if (!first(device)) return kSuccess;
  list[0] = {.pid = 4242, .memory = 6ULL << 30, .gpu_instance = 0, .compute_instance = 0};
  list[1] = {.pid = static_cast<unsigned>(getpid()),
             .memory = kNotKnown,
             .gpu_instance = 0,
             .compute_instance = 0};
  return kSuccess;
}
/// 20 % first and 70 % later, the newest first.
Return nvmlDeviceGetProcessUtilization(Handle device, ProcessLoad* list, unsigned* count,
                                       unsigned long long since) {
  if (!first(device)) return kNotSupported;
  const unsigned room = *count;
  *count = since < 200 ? 2 : 0;
  if (room < *count) return kInsufficientSize;
  if (since >= 200) return kNotFound;
  list[0] = {.pid = 4242, .time = 200, .sm = 70, .memory = 9, .encoder = 0, .decoder = 0};
  list[1] = {.pid = 4242, .time = 100, .sm = 20, .memory = 9, .encoder = 0, .decoder = 0};
  return kSuccess;
}
Return nvmlDeviceGetClockInfo(Handle device, int clock, unsigned* mhz) {
  return first(device) ? give(mhz, clock == kClockSm ? 1485 : 2619) : kNotSupported;
}
Return nvmlDeviceGetMaxClockInfo(Handle device, int clock, unsigned* mhz) {
  return first(device) ? give(mhz, clock == kClockSm ? 1980 : 2619) : kNotSupported;
}
Return nvmlDeviceGetCurrentClocksEventReasons(Handle device, unsigned long long* reasons) {
  *reasons = first(device) ? 0x4 | 0x40 : 0x1;
  return kSuccess;
}
Return nvmlGpmQueryDeviceSupport(Handle device, GpmSupport* support) {
  if (support->version != kGpmVersion) return kNotSupported;
  support->is_supported = first(device);
  return kSuccess;
}
Return nvmlGpmSampleAlloc(Sample* sample) {
  *sample = reinterpret_cast<Sample>(new int(0));
  return kSuccess;
}
Return nvmlGpmSampleGet(Handle, Sample sample) {
  *reinterpret_cast<int*>(sample) = ++samples_taken;
  return kSuccess;
}
/// Per cent, or MiB/s; this card has no NVLink.
static double gpm_value(unsigned id) {
  switch (id) {
    case kGpmSmUtil:
      return 83.75;
    case kGpmAnyTensorUtil:
      return 41.25;
    case kGpmMemoryUtil:
      return 62.5;
    case kGpmPcieIn:
      return 1024;
    case kGpmPcieOut:
      return 256;
    default:
      return -1;
  }
}
/// Right if the first sample is older than the second.
Return nvmlGpmMetricsGet(GpmMetricsGet* get) {
  if (get->version != kGpmVersion ||
      *reinterpret_cast<int*>(get->sample1) + 1 != *reinterpret_cast<int*>(get->sample2))
    return kNotSupported;
  for (unsigned i = 0; i < get->count; ++i) {
    GpmMetric& metric = get->metrics[i];
    metric.result = kSuccess;
    metric.value = gpm_value(metric.id);
    if (metric.value < 0) metric.result = kNotSupported;
  }
  return kSuccess;
}

}  // extern "C"
