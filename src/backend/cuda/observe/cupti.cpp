// CUPTI, opened at run time (see activity.h). Its clock is made ours: CUPTI asks us for the time
// when it relates the device's clock to the host's.
#include "backend/cuda/observe/activity.h"

#include <dlfcn.h>

namespace brim::cuda {
namespace {

bool has_driver() { return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr; }

}  // namespace
}  // namespace brim::cuda

#if BRIM_HAVE_CUPTI

#include <cupti.h>
#include <cxxabi.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "backend/cuda/observe/kernel_name.h"
#include "backend/cuda/runtime/dynamic_library.h"
#include "diag/span.h"

namespace brim::cuda {
namespace {

/// A buffer is handed over when it is full: some 5000 launches of graphs, or 2000 of kernels.
constexpr size_t kBufferBytes = size_t{1} << 19;
constexpr uint32_t kLeastVersion = 130001;  // before it, disabling could deadlock

constexpr std::array kKinds = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                               CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};

/// Enabled with the others, it takes the place of the records of graphs' nodes.
constexpr CUpti_ActivityKind kGraphKind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;

/// The calls that queue work, in the runtime and, for NVIDIA's libraries, below it.
constexpr std::array kRuntimeCalls = {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
                                      CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
                                      CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
                                      CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
                                      CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
                                      CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000,
                                      CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
                                      CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000};
constexpr std::array kDriverCalls = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,  CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,   CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch};

struct Library : DynamicLibrary {
  Library()
      : DynamicLibrary("CUPTI", "libcupti.so.13", open_cuda_library("libcupti.so.13"),
                       "install the CUDA 13 toolkit, or pip's nvidia-cuda-cupti") {}
  decltype(&cuptiGetVersion) version = find("cuptiGetVersion");
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks =
      find("cuptiActivityRegisterCallbacks");
  decltype(&cuptiActivityRegisterTimestampCallback) register_clock =
      find("cuptiActivityRegisterTimestampCallback");
  decltype(&cuptiActivityEnable) enable = find("cuptiActivityEnable");
  decltype(&cuptiActivityDisable) disable = find("cuptiActivityDisable");
  decltype(&cuptiActivityEnableRuntimeApi) enable_runtime = find("cuptiActivityEnableRuntimeApi");
  decltype(&cuptiActivityEnableDriverApi) enable_driver = find("cuptiActivityEnableDriverApi");
  decltype(&cuptiActivityFlushAll) flush = find("cuptiActivityFlushAll");
  decltype(&cuptiActivityGetNextRecord) next = find("cuptiActivityGetNextRecord");
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = find("cuptiActivityGetNumDroppedRecords");
  decltype(&cuptiSetThreadIdType) set_thread_ids = find("cuptiSetThreadIdType");
  decltype(&cuptiGetResultString) text = find("cuptiGetResultString");
};

const Library& library() {
  static const Library cupti;
  return cupti;
}

// Set once, before the first record. CUPTI's callbacks take no argument of ours.
ActivitySink* sink = nullptr;
double ns_per_tick = 0;
bool whole_graphs = false;  // records of graphs are enabled
std::atomic<uint64_t> changes{0};

uint64_t now_ns() {
  return static_cast<uint64_t>(static_cast<double>(diag::ticks()) * ns_per_tick);
}
uint64_t to_ticks(uint64_t ns) {
  return static_cast<uint64_t>(static_cast<double>(ns) / ns_per_tick);
}

struct HashOfText {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// A name that lives as long as the process.
const char* kept_name(const char* mangled) {
  static std::mutex mutex;
  static auto* const names =
      new std::unordered_map<std::string, std::string, HashOfText, std::equal_to<>>;
  if (!mangled) return "kernel";
  const std::lock_guard lock(mutex);
  if (const auto known = names->find(std::string_view(mangled)); known != names->end())
    return known->second.c_str();
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  const auto at = names->emplace(mangled, short_kernel_name(text ? text : mangled)).first;
  std::free(text);
  return at->second.c_str();
}

/// Work that has a device and times of it.
template <class Record>
void report(const Record& r, diag::Cause cause, const char* name) {
  if (r.start == 0 || r.end < r.start)  // CUPTI has no times for it
    return sink->lost(static_cast<int>(r.deviceId));
  sink->work(static_cast<int>(r.deviceId), {.cause = cause,
                                            .begin = to_ticks(r.start),
                                            .end = to_ticks(r.end),
                                            .correlation = r.correlationId,
                                            .stream = static_cast<int>(r.streamId),
                                            .name = name});
}

void report(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& r = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      return report(r, diag::Cause::compute, kept_name(r.name));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& r = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      if (r.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD)
        return report(r, diag::Cause::copy_to_device, "copy to the device");
      if (r.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH)
        return report(r, diag::Cause::copy_to_host, "copy to the host");
      return report(r, diag::Cause::compute, "copy on the device");
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return report(reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record),
                    diag::Cause::communication, "copy between devices");
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return report(reinterpret_cast<const CUpti_ActivityMemset4&>(record), diag::Cause::compute,
                    "memset");
    case kGraphKind: {
      auto r = reinterpret_cast<const CUpti_ActivityGraphTrace2&>(record);
      if (r.deviceId == INT_MAX) r.deviceId = r.endDeviceId;  // its first node runs on the host
      return report(r, diag::Cause::compute, "graph");
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto& r = reinterpret_cast<const CUpti_ActivityAPI&>(record);
      return sink->queued(r.correlationId,
                          {.at = to_ticks(r.start), .thread = static_cast<int>(r.threadId)});
    }
    default:
      return;
  }
}

void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;  // without a buffer CUPTI drops records and counts them
  *max_records = 0;
}

std::atomic<int> deliveries{0};  // under way

void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                               size_t valid) {
  ++deliveries;
  CUpti_Activity* record = nullptr;
  while (buffer && valid > 0 && library().next(buffer, valid, &record) == CUPTI_SUCCESS)
    report(*record);
  size_t dropped = 0;
  if (library().dropped(context, stream, &dropped) == CUPTI_SUCCESS && dropped > 0)
    sink->dropped(static_cast<int64_t>(dropped));
  sink->delivered();
  std::free(buffer);
  --deliveries;
  deliveries.notify_all();
}

std::string words_for(CUptiResult result, const char* call) {
  const char* words = nullptr;
  if (library().text(result, &words) != CUPTI_SUCCESS || !words) words = "no text";
  return std::string(call) + " says " + words;
}

/// Once in a process. Returns why not.
std::string prepare() {
  const Library& cupti = library();
  // Without a driver, some versions never return from cuptiGetVersion.
  if (!has_driver()) return kNoDriver;
  if (!cupti.problem().empty()) return cupti.problem();
  uint32_t version = 0;
  if (cupti.version(&version) != CUPTI_SUCCESS || version < kLeastVersion)
    return "libcupti.so.13 is older than that of CUDA 13.0 Update 1";
  ns_per_tick = 1000 / diag::ticks_per_us();
  if (const CUptiResult r = cupti.register_clock(now_ns); r != CUPTI_SUCCESS)
    return words_for(r, "cuptiActivityRegisterTimestampCallback");
  if (const CUptiResult r = cupti.set_thread_ids(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
      r != CUPTI_SUCCESS)
    return words_for(r, "cuptiSetThreadIdType");
  if (const CUptiResult r = cupti.register_callbacks(buffer_requested, buffer_completed);
      r != CUPTI_SUCCESS)
    return words_for(r, "cuptiActivityRegisterCallbacks");
  return "";
}

/// Calls that this CUPTI does not know leave their work without a note, which is all they do.
void enable_calls(uint8_t on) {
  for (const CUpti_CallbackId call : kRuntimeCalls) (void)library().enable_runtime(call, on);
  for (const CUpti_CallbackId call : kDriverCalls) (void)library().enable_driver(call, on);
}

}  // namespace

std::string start_activity(ActivitySink& into) {
  sink = &into;
  static const std::string why_not = prepare();
  if (!why_not.empty()) return why_not;
  for (const CUpti_ActivityKind kind : kKinds) {
    const CUptiResult result = library().enable(kind);
    if (result == CUPTI_SUCCESS) continue;
    for (const CUpti_ActivityKind enabled : kKinds) (void)library().disable(enabled);
    ++changes;
    return words_for(result, "cuptiActivityEnable");
  }
  enable_calls(1);
  ++changes;
  return "";
}

std::string change_activity(diag::Detail detail) {
  const bool graphs = detail == diag::Detail::graphs;
  if (graphs == whole_graphs) return "";
  const CUptiResult r = graphs ? library().enable(kGraphKind) : library().disable(kGraphKind);
  if (r == CUPTI_SUCCESS) {
    whole_graphs = graphs;
    ++changes;
  }
  return r == CUPTI_SUCCESS ? ""
                            : words_for(r, graphs ? "cuptiActivityEnable" : "cuptiActivityDisable");
}

void stop_activity() {
  (void)change_activity(diag::Detail::nodes);
  for (const CUpti_ActivityKind kind : kKinds) (void)library().disable(kind);
  enable_calls(0);
  ++changes;
  flush_activity(Flush::all);
}

uint64_t activity_changes() { return changes.load(); }

void flush_activity(Flush what) {
  static std::mutex flushing;
  const std::lock_guard lock(flushing);
  (void)library().flush(what == Flush::all ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
  // CUPTI's own thread may still read a buffer that it took before.
  while (const int under_way = deliveries.load()) deliveries.wait(under_way);
}

}  // namespace brim::cuda

#else

namespace brim::cuda {

std::string start_activity(ActivitySink&) {
  return has_driver() ? "brim was built without CUPTI's headers" : kNoDriver;
}
std::string change_activity(diag::Detail) { return ""; }
void stop_activity() {}
uint64_t activity_changes() { return 0; }
void flush_activity(Flush) {}

}  // namespace brim::cuda

#endif
