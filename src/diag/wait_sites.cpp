#include "diag/wait_sites.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "diag/span.h"

namespace brim::diag {
namespace {

constexpr double kShortUs = 5;  // less is no wait, and the stack takes about as long
constexpr size_t kDepth = 32;   // of a stack, brim's own part included
constexpr size_t kMostSites = 4096;

std::atomic<int> users{0};

struct Sum {
  int64_t count = 0;
  uint64_t ticks = 0;
};
struct Sites {
  std::mutex mutex;
  std::map<std::pair<std::pair<Cause, const char*>, std::vector<void*>>, Sum> all;
};
/// Never destroyed: threads may outlive what is.
Sites& sites() {
  static auto* const all = new Sites;
  return *all;
}

bool is_wait(Cause cause) {
  return cause == Cause::host_read || cause == Cause::synchronize || cause == Cause::staging ||
         cause == Cause::copy_to_host;
}

/// Where the library or program that holds the address begins.
const void* base_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

}  // namespace

void note_waits(bool on) { users.fetch_add(on ? 1 : -1, std::memory_order_relaxed); }
bool notes_waits() { return users.load(std::memory_order_relaxed) > 0; }

void note_wait(Cause cause, const char* op, uint64_t ticks) {
  if (!is_wait(cause) || static_cast<double>(ticks) < kShortUs * ticks_per_us()) return;
  std::array<void*, kDepth> stack{};
  const int depth = backtrace(stack.data(), static_cast<int>(stack.size()));
  static const void* const own = base_of(reinterpret_cast<const void*>(&note_wait));
  const auto end = stack.begin() + std::max(depth, 0);
  const auto is_own = [](const void* at) { return base_of(at) == own; };
  // A sanitizer's backtrace() begins with itself.
  const auto begin = std::find_if_not(std::find_if(stack.begin(), end, is_own), end, is_own);
  try {
    const std::lock_guard lock(sites().mutex);
    auto& all = sites().all;
    auto key = std::pair(std::pair(cause, op), std::vector<void*>(begin, end));
    if (all.size() >= kMostSites && !all.contains(key)) return;
    Sum& sum = all[std::move(key)];
    ++sum.count;
    sum.ticks += ticks;
  } catch (const std::bad_alloc&) {  // this one is not told
  }
}

std::vector<WaitSite> wait_sites(size_t most) {
  std::vector<WaitSite> list;
  {
    const std::lock_guard lock(sites().mutex);
    for (const auto& [key, sum] : sites().all)
      list.push_back({.cause = key.first.first,
                      .op = key.first.second,
                      .count = sum.count,
                      .seconds = static_cast<double>(sum.ticks) / ticks_per_us() * 1e-6,
                      .stack = key.second});
  }
  std::ranges::stable_sort(
      list, [](const WaitSite& a, const WaitSite& b) { return a.seconds > b.seconds; });
  if (list.size() > most) list.resize(most);
  return list;
}

CodeAddress code_address(void* return_address) {
  CodeAddress code;
  // The call is before the address that it returns to.
  const void* const call = static_cast<const char*>(return_address) - 1;
  Dl_info info{};
  void* map = nullptr;
  if (dladdr1(call, &info, &map, RTLD_DL_LINKMAP) == 0 || !info.dli_fname || !map) return code;
  // The program's own name is what it was called by, which need not be a path from here.
  const auto* const module = static_cast<const link_map*>(map);
  char self[PATH_MAX];
  const ssize_t length = *module->l_name ? -1 : readlink("/proc/self/exe", self, sizeof(self));
  code.file = length > 0 ? std::string(self, static_cast<size_t>(length)) : info.dli_fname;
  code.address = reinterpret_cast<uintptr_t>(call) - module->l_addr;
  if (!info.dli_sname) return code;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  code.function = name ? name.get() : info.dli_sname;
  return code;
}

}  // namespace brim::diag
