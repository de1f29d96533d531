// A CUPTI over the emulation of CUDA, for tests: records what the emulation does and delivers it
// when flushed, the last record first. Built as libcupti.so.13. BRIM_FAKE_CUPTI: "refuse" (another
// tool has it), "old" (of CUDA 12), "dropped" (some records found no room), "small" (buffers are
// full after a few records, which a thread of its own then delivers in their order), "no graphs"
// (no records of graphs as wholes), "no work" (calls only), "untimed" (work without its times).
// While the emulation's devices work (BRIM_EMULATED_BUSY) only a forced flush delivers.
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace {

using Record =
    std::variant<CUpti_ActivityKernel10, CUpti_ActivityMemcpy6, CUpti_ActivityMemcpyPtoP4,
                 CUpti_ActivityMemset4, CUpti_ActivityGraphTrace2, CUpti_ActivityAPI>;

struct State {
  std::mutex mutex;
  std::set<int> kinds;
  std::set<unsigned> calls;
  std::vector<Record> records;
  uint32_t correlation = 0;
  uint64_t begin = 0, graph_begin = 0;
  bool in_graph = false;
  size_t dropped = 0;
  CUpti_TimestampCallbackFunc clock = nullptr;
  CUpti_BuffersCallbackRequestFunc requested = nullptr;
  CUpti_BuffersCallbackCompleteFunc completed = nullptr;
  CUpti_ActivityThreadIdType threads = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
};
State& state() {
  static auto* all = new State;
  return *all;
}

bool mode(const char* name) {
  const char* given = std::getenv("BRIM_FAKE_CUPTI");
  return given && std::string(given) == name;
}

template <class R>
R filled(CUpti_ActivityKind kind, int device) {
  R r;
  std::memset(static_cast<void*>(&r), 0, sizeof r);
  r.kind = kind;
  r.start = state().begin;
  r.end = mode("untimed") ? 0 : state().clock();
  r.deviceId = static_cast<uint32_t>(device);
  r.streamId = 7;
  r.correlationId = state().correlation;
  return r;
}

void add_work(const std::string& kind, int device) {
  State& s = state();
  if (kind == "graph") {
    if (!s.kinds.contains(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)) return;
    s.begin = s.graph_begin;
    auto r = filled<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, device);
    r.endDeviceId = r.deviceId;
    s.records.emplace_back(r);
  } else if (s.in_graph && s.kinds.contains(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)) {
    return;  // one record tells of the graph
  } else if (kind == "kernel") {
    auto r = filled<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, device);
    r.name = "_ZN4brim4cuda12_GLOBAL__N_112unary_kernelIfNS_7formula4ReluEEEvPKT_PS4_l";
    s.records.emplace_back(r);
  } else if (kind == "memset") {
    s.records.emplace_back(filled<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, device));
  } else if (kind == "between") {
    s.records.emplace_back(filled<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, device));
  } else {
    auto r = filled<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, device);
    r.copyKind = kind == "to device" ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
                 : kind == "to host" ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                     : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
    s.records.emplace_back(r);
  }
}

/// Hands records over, in as many buffers as they need.
void deliver(const std::vector<Record>& records) {
  State& s = state();
  for (size_t i = 0; i < records.size();) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0, valid = 0;
    s.requested(&buffer, &size, &most);
    for (; i < records.size(); ++i) {
      const auto copy = [&](const auto& r) {
        if (valid + sizeof r > size) return false;
        std::memcpy(buffer + valid, static_cast<const void*>(&r), sizeof r);
        valid += sizeof r;
        return true;
      };
      if (!std::visit(copy, records[i])) break;
    }
    s.completed(nullptr, 0, buffer, size, valid);
  }
}

void note(const char* kind, int device, int phase) {
  State& s = state();
  if (phase == 2 && std::string(kind) == "graph") s.in_graph = false;
  if (phase == 0) {
    ++s.correlation;
    CUpti_ActivityAPI r{};
    r.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    r.start = r.end = s.clock();
    r.threadId =
        static_cast<uint32_t>(s.threads == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM ? gettid() : 1);
    r.correlationId = s.correlation;
    if (!s.calls.empty()) s.records.emplace_back(r);
  } else if (phase == 1) {
    s.begin = s.clock();
    if (std::string(kind) == "graph") {
      s.in_graph = true;
      s.graph_begin = s.begin;
    }
  } else if (mode("dropped") && ++s.dropped % 2) {
    return;
  } else if (!mode("no work")) {
    add_work(kind, device);
  }
}

/// Told by the emulation (see its EmulationWatcher).
void watch(const char* kind, int device, int phase) {
  constexpr size_t kSmall = 8;
  State& s = state();
  std::vector<Record> full;
  {
    const std::lock_guard lock(s.mutex);
    if (s.kinds.empty() || !s.clock) return;
    note(kind, device, phase);
    if (mode("small") && s.records.size() >= kSmall) full.swap(s.records);
  }
  if (!full.empty()) std::thread([&] { deliver(full); }).join();
}

/// CUPTI is only asked where a driver is loaded; the one beside this file will do.
const bool driver_loaded = [] {
  Dl_info self{};
  if (!dladdr(reinterpret_cast<const void*>(&watch), &self)) return false;
  const std::string path = self.dli_fname;
  return dlopen((path.substr(0, path.rfind('/') + 1) + "libcuda.so.1").c_str(), RTLD_LAZY) !=
         nullptr;
}();

size_t size_of(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    default:
      return sizeof(CUpti_ActivityKernel10);
  }
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = mode("old") ? 28 : CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
              ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
          : result == CUPTI_ERROR_NOT_COMPATIBLE ? "CUPTI_ERROR_NOT_COMPATIBLE"
                                                 : "CUPTI_ERROR";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  state().clock = clock;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  state().threads = type;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  state().requested = requested;
  state().completed = completed;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (mode("refuse")) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  if (mode("no graphs") && kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
    return CUPTI_ERROR_NOT_COMPATIBLE;
  using Watcher = void (*)(const char*, int, int);
  auto* attach = reinterpret_cast<void (*)(Watcher)>(dlsym(RTLD_DEFAULT, "brim_emulation_watch"));
  if (!attach) return CUPTI_ERROR_NOT_INITIALIZED;
  {
    const std::lock_guard lock(state().mutex);
    state().kinds.insert(kind);
  }
  attach(watch);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(state().mutex);
  state().kinds.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId call, uint8_t on) {
  const std::lock_guard lock(state().mutex);
  on ? (void)state().calls.insert(call) : (void)state().calls.erase(call);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* count) {
  const std::lock_guard lock(state().mutex);
  *count = state().dropped / 2;
  state().dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t bytes, CUpti_Activity** record) {
  uint8_t* next = *record ? reinterpret_cast<uint8_t*>(*record) + size_of(**record) : buffer;
  if (next >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  State& s = state();
  // Something incomplete is in the buffer.
  if (flag != CUPTI_ACTIVITY_FLAG_FLUSH_FORCED && std::getenv("BRIM_EMULATED_BUSY"))
    return CUPTI_SUCCESS;
  std::vector<Record> records;
  {
    const std::lock_guard lock(s.mutex);
    records.swap(s.records);
  }
  std::reverse(records.begin(), records.end());
  deliver(records);
  return CUPTI_SUCCESS;
}

/// For tests: what is recorded at this moment.
const char* brim_fake_cupti_kinds();
const char* brim_fake_cupti_kinds() {
  static std::string words;
  const std::lock_guard lock(state().mutex);
  words.clear();
  for (const int kind : state().kinds)
    words += kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ? "kernels "
             : kind == CUPTI_ACTIVITY_KIND_MEMCPY          ? "copies "
             : kind == CUPTI_ACTIVITY_KIND_MEMCPY2         ? "copies-between "
             : kind == CUPTI_ACTIVITY_KIND_MEMSET          ? "memsets "
             : kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE     ? "graphs "
                                                           : "other ";
  return words.c_str();
}

}  // extern "C"
