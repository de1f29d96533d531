// The functions of NVML that brim asks, declared as in NVIDIA's nvml.h, which not every toolkit
// brings along. NVML comes with the driver and keeps these stable. Compared with NVIDIA's Python
// binding, nvidia-ml-py 13.615.71.
#pragma once

#include <cstddef>

namespace brim::cuda::nvml {

using Return = int;
constexpr Return kSuccess = 0;
constexpr Return kInsufficientSize = 7;  // NVML_ERROR_INSUFFICIENT_SIZE
using Handle = struct NvmlDevice*;       // nvmlDevice_t
using Sample = struct GpmSample*;        // nvmlGpmSample_t

struct Utilization {  // nvmlUtilization_t; percent
  unsigned gpu, memory;
};
struct Memory {  // nvmlMemory_t; bytes
  unsigned long long total, free, used;
};
constexpr int kTemperatureGpu = 0;               // NVML_TEMPERATURE_GPU
constexpr int kClockSm = 1, kClockMemory = 2;    // NVML_CLOCK_SM, NVML_CLOCK_MEM
constexpr int kPcieOut = 0, kPcieIn = 1;         // NVML_PCIE_UTIL_TX_BYTES, ..._RX_BYTES
constexpr int kCorrected = 0, kUncorrected = 1;  // NVML_MEMORY_ERROR_TYPE_...
constexpr int kVolatileEcc = 0;                  // NVML_VOLATILE_ECC: since the driver was loaded

struct Process {  // nvmlProcessInfo_t
  unsigned pid;
  unsigned long long memory;  // bytes; kNotKnown
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kNotKnown = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE
struct ProcessLoad {  // nvmlProcessUtilizationSample_t; microseconds, percent
  unsigned pid;
  unsigned long long time;
  unsigned sm, memory, encoder, decoder;
};

/// nvmlClocksEventReason...: a bit, what it says, and whether it is heat, power or a fault.
struct ClockReason {
  unsigned long long bit;
  const char* words;
  bool throttles;
};
constexpr ClockReason kClockReasons[] = {
    {0x001, "idle", false},
    {0x002, "clocks set by the user", false},
    {0x004, "power cap", true},
    {0x008, "hardware slowdown", true},
    {0x010, "sync boost", false},
    {0x020, "heat (driver)", true},
    {0x040, "heat (hardware)", true},
    {0x080, "power brake", true},
    {0x100, "clocks of the display", false},
};

struct GpmSupport {  // nvmlGpmSupport_t
  unsigned version, is_supported;
};
constexpr unsigned kGpmVersion = 1;        // NVML_GPM_SUPPORT_VERSION, NVML_GPM_METRICS_GET_VERSION
constexpr unsigned kGpmSmUtil = 2;         // NVML_GPM_METRIC_SM_UTIL; percent
constexpr unsigned kGpmAnyTensorUtil = 5;  // NVML_GPM_METRIC_ANY_TENSOR_UTIL; percent
constexpr unsigned kGpmMemoryUtil = 10;    // NVML_GPM_METRIC_DRAM_BW_UTIL; percent
constexpr unsigned kGpmPcieOut = 20, kGpmPcieIn = 21;      // ..._PCIE_TX_PER_SEC, RX; MiB/s
constexpr unsigned kGpmNvlinkIn = 60, kGpmNvlinkOut = 61;  // ..._NVLINK_TOTAL_RX_PER_SEC, TX; MiB/s

struct GpmMetric {  // nvmlGpmMetric_t
  unsigned id;
  Return result;
  double value;
  struct {
    const char *short_name, *long_name, *unit;
  } info;
};
struct GpmMetricsGet {  // nvmlGpmMetricsGet_t
  unsigned version, count;
  Sample sample1, sample2;
  GpmMetric metrics[512];  // no fewer than NVML_GPM_METRIC_MAX, which is 477 so far
};

// What the library reads and writes lies where it expects it (64-bit Linux).
static_assert(sizeof(Utilization) == 8 && sizeof(Memory) == 24 && sizeof(GpmSupport) == 8);
static_assert(sizeof(Process) == 24 && sizeof(ProcessLoad) == 32);
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetric, value) == 8);
static_assert(offsetof(GpmMetricsGet, sample1) == 8 && offsetof(GpmMetricsGet, metrics) == 24);

extern "C" {
using Init = Return();                                  // nvmlInit_v2
using ErrorString = const char*(Return);                // nvmlErrorString
using HandleByPciBusId = Return(const char*, Handle*);  // nvmlDeviceGetHandleByPciBusId_v2
using GetUtilization = Return(Handle, Utilization*);    // nvmlDeviceGetUtilizationRates
using GetMemory = Return(Handle, Memory*);              // nvmlDeviceGetMemoryInfo
using GetTemperature = Return(Handle, int, unsigned*);  // nvmlDeviceGetTemperature
using GetPower = Return(Handle,
                        unsigned*);  // ...PowerUsage, ...EnforcedPowerLimit: mW; ...FanSpeed: %
using GetClock = Return(Handle, int, unsigned*);  // nvmlDeviceGetClockInfo, ...MaxClockInfo: MHz
using GetReasons = Return(Handle, unsigned long long*);  // nvmlDeviceGetCurrentClocksEventReasons
using GetEnergy = Return(Handle, unsigned long long*);   // nvmlDeviceGetTotalEnergyConsumption: mJ
using GetPcie = Return(Handle, int, unsigned*);          // nvmlDeviceGetPcieThroughput: KB/s
using GetEcc = Return(Handle, int, int, unsigned long long*);    // nvmlDeviceGetTotalEccErrors
using GetProcesses = Return(Handle, unsigned* count, Process*);  // ...ComputeRunningProcesses_v3
/// nvmlDeviceGetProcessUtilization: samples younger than a time.
using GetProcessLoads = Return(Handle, ProcessLoad*, unsigned* count, unsigned long long since);
using GpmQuerySupport = Return(Handle, GpmSupport*);  // nvmlGpmQueryDeviceSupport
using GpmAlloc = Return(Sample*);                     // nvmlGpmSampleAlloc
using GpmGet = Return(Handle, Sample);                // nvmlGpmSampleGet
using GpmMetrics = Return(GpmMetricsGet*);            // nvmlGpmMetricsGet
}

}  // namespace brim::cuda::nvml
