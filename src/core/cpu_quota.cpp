// Limits of version 2 lie in one tree, those of version 1 in one for each resource.
#include "core/cpu_quota.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace brim {
namespace {

/// Reads the start of a file as text: "" when there is none.
void read_text(const char* path, char* text, size_t bytes) {
  size_t end = 0;
  if (const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); file >= 0) {
    ssize_t got = 0;
    while (end + 1 < bytes && (got = read(file, text + end, bytes - 1 - end)) > 0)
      end += static_cast<size_t>(got);
    close(file);
  }
  text[end] = '\0';
}

/// The least quota of the folders seen so far.
class LeastQuota {
 public:
  double cores() const { return cores_; }

  /// Of the folder at `path` of a tree, and of those above it.
  void add_up_to_root(const char* tree, const char* path, bool is_version_2) {
    char folder[kPath];
    const int root = std::snprintf(folder, sizeof folder, "%s", tree);
    if (root < 0 || root >= static_cast<int>(sizeof folder)) return;
    if (!std::strstr(path, "..") && std::strlen(path) < sizeof folder - static_cast<size_t>(root))
      std::strcpy(folder + root, path);
    for (;;) {
      add(folder, is_version_2);
      char* const last = std::strrchr(folder + root, '/');
      if (!last) return;
      *last = '\0';
    }
  }

 private:
  static constexpr size_t kPath = 4096;

  void add(const char* folder, bool is_version_2) {
    char text[64], *end = text;
    read(folder, is_version_2 ? "cpu.max" : "cpu.cfs_quota_us", text, sizeof text);
    const long long quota = std::strtoll(text, &end, 10);  // "max" and -1: none
    if (!is_version_2) read(folder, "cpu.cfs_period_us", end = text, sizeof text);
    const long long period = std::strtoll(end, nullptr, 10);
    if (quota <= 0 || period <= 0) return;
    const double cores = static_cast<double>(quota) / static_cast<double>(period);
    if (cores_ == 0 || cores < cores_) cores_ = cores;
  }

  static void read(const char* folder, const char* name, char* text, size_t bytes) {
    char path[kPath + 32];
    std::snprintf(path, sizeof path, "%s/%s", folder, name);
    read_text(path, text, bytes);
  }

  double cores_ = 0;
};

/// Whether a list as "cpu,cpuacct" has `name`.
bool has_controller(const char* list, const char* name) {
  const size_t length = std::strlen(name);
  for (const char* at = list; (at = std::strstr(at, name)); at += length)
    if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) return true;
  return false;
}

}  // namespace

double cpu_quota(const char* proc, const char* sys) {
  char path[4096], text[16384];
  std::snprintf(path, sizeof path, "%s/self/cgroup", proc);
  read_text(path, text, sizeof text);
  LeastQuota quota;
  char* next = text;
  while (char* line = strsep(&next, "\n")) {  // "ID:CONTROLLERS:PATH"
    strsep(&line, ":");
    const char* const controllers = line ? strsep(&line, ":") : nullptr;
    if (!line) continue;
    const bool is_version_2 = *controllers == '\0';
    if (!is_version_2 && !has_controller(controllers, "cpu")) continue;
    std::snprintf(path, sizeof path, is_version_2 ? "%s/fs/cgroup" : "%s/fs/cgroup/cpu", sys);
    quota.add_up_to_root(path, line, is_version_2);
  }
  return quota.cores();
}

int threads_within(double quota, int cores) {
  const int whole = quota < 1 ? 1 : quota > cores ? cores : static_cast<int>(quota);
  return quota > 0 ? whole : cores < 1 ? 1 : cores;
}

}  // namespace brim
