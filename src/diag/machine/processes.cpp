// Processes: one small file of each at every reading; what does not change is read once.
#include <dirent.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "diag/machine/kernel_text.h"
#include "diag/machine/parts.h"

namespace brim::diag {
namespace {

constexpr size_t kMaxProcesses = 32768, kMaxThreads = 4096, kMaxCommand = 256;

/// The numbers that name folders in `path`, in their order.
std::vector<int64_t> numbered_folders(const std::string& path, size_t limit) {
  std::vector<int64_t> numbers;
  DIR* const folder = opendir(path.c_str());
  if (!folder) return numbers;
  while (const dirent* entry = readdir(folder)) {
    if (numbers.size() >= limit) break;
    const std::string_view name = entry->d_name;
    if (name[0] < '1' || name[0] > '9') continue;
    if (const auto n = whole_number(name)) numbers.push_back(*n);
  }
  closedir(folder);
  std::ranges::sort(numbers);
  return numbers;
}

double cores_of(uint64_t before, uint64_t after, double seconds) {
  static const double ticks_a_second = static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  return rate(before, after, seconds) / ticks_a_second;
}

/// Bytes from and to storage, of /proc/PID/io.
struct StorageBytes {
  uint64_t read = 0, written = 0;
};
std::optional<StorageBytes> storage_bytes(const std::string& folder) {
  const auto text = kernel_text(folder + "/io", 4096);
  if (!text || text->empty()) return {};
  StorageBytes bytes;
  for (std::string_view left = *text; !left.empty();) {
    const std::string_view line = take_line(left);
    const auto numbers = leading_numbers(line.substr(std::min(line.find(' '), line.size())), 1);
    if (numbers.empty()) continue;
    if (line.starts_with("read_bytes:")) bytes.read = numbers[0];
    if (line.starts_with("write_bytes:")) bytes.written = numbers[0];
  }
  return bytes;
}

}  // namespace

// proc(5): pid (comm) state ppid ...; the fields behind comm are counted from "state" here.
std::optional<StatLine> parse_stat_line(std::string_view text) {
  constexpr size_t kUser = 10, kSystem = 11, kThreads = 16, kStarted = 18, kResident = 20;
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
  StatLine line;
  line.name = text.substr(open + 1, std::min<size_t>(close - open - 1, 64));
  std::string_view left = text.substr(close + 1);
  take_field(left);  // the state, a letter
  const auto n = leading_numbers(left, kResident + 1);
  if (n.size() <= kResident) return {};
  line.cpu_ticks = n[kUser] + n[kSystem];
  line.threads = static_cast<int64_t>(std::min<uint64_t>(n[kThreads], 1 << 30));
  line.started = n[kStarted];
  line.resident_pages = static_cast<int64_t>(std::min<uint64_t>(n[kResident], uint64_t{1} << 40));
  return line;
}

void ProcessReader::meet(const std::string& folder, const StatLine& line, Known& known) {
  known.name = line.name;
  struct stat found {};
  if (stat(folder.c_str(), &found) == 0) known.uid = found.st_uid;
  known.command = kernel_text(folder + "/cmdline", kMaxCommand).value_or("");
  while (known.command.ends_with('\0')) known.command.pop_back();
  std::ranges::replace(known.command, '\0', ' ');
  const auto bytes = storage_bytes(folder);
  known.tells_storage = bytes.has_value();
  if (bytes) {
    known.read = bytes->read;
    known.written = bytes->written;
  }
}

std::vector<ProcessReading> ProcessReader::read(const MachineRoots& roots, double seconds) {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  std::unordered_map<int64_t, Known> now;
  std::vector<ProcessReading> processes;
  for (const int64_t pid : numbered_folders(roots.proc, kMaxProcesses)) {
    const std::string folder = fmt::format("{}/{}", roots.proc, pid);
    const auto line = parse_stat_line(kernel_text(folder + "/stat", 4096).value_or(""));
    if (!line) continue;  // it ended meanwhile
    ProcessReading p{.pid = pid, .name = line->name, .threads = line->threads};
    p.resident = line->resident_pages * page;
    const auto before = processes_.find(pid);
    const bool is_known = before != processes_.end() && before->second.started == line->started;
    Known known = is_known ? std::move(before->second) : Known{.started = line->started};
    // A process has another name when it executes another program.
    if (!is_known || known.name != line->name) meet(folder, *line, known);
    if (is_known) {
      p.cores = cores_of(known.cpu_ticks, line->cpu_ticks, seconds);
      if (known.tells_storage) p.read = p.written = 0;
      // Most processes rest; what they read or write without a tick is told with their next one.
      const bool rests = line->cpu_ticks == known.cpu_ticks;
      if (const auto bytes = known.tells_storage && !rests ? storage_bytes(folder) : std::nullopt) {
        p.read = rate(known.read, bytes->read, seconds);
        p.written = rate(known.written, bytes->written, seconds);
        known.read = bytes->read;
        known.written = bytes->written;
      }
    }
    known.cpu_ticks = line->cpu_ticks;
    p.uid = known.uid;
    p.command = known.command;
    now.emplace(pid, std::move(known));
    processes.push_back(std::move(p));
  }
  processes_ = std::move(now);
  threads_before_ = std::exchange(threads_, {});
  look_into_busiest(roots, seconds, processes);
  return processes;
}

std::vector<ThreadReading> ProcessReader::read_threads(const MachineRoots& roots, int64_t pid,
                                                       double seconds) {
  const Ticks& before = threads_before_[pid];
  Ticks& now = threads_[pid];
  std::vector<ThreadReading> threads;
  const std::string folder = fmt::format("{}/{}/task", roots.proc, pid);
  for (const int64_t tid : numbered_folders(folder, kMaxThreads)) {
    const std::string path = fmt::format("{}/{}/stat", folder, tid);
    const auto line = parse_stat_line(kernel_text(path, 4096).value_or(""));
    if (!line) continue;
    ThreadReading thread{.tid = tid, .name = line->name};
    if (const auto known = before.find(tid); known != before.end())
      thread.cores = cores_of(known->second, line->cpu_ticks, seconds);
    now[tid] = line->cpu_ticks;
    threads.push_back(std::move(thread));
  }
  return threads;
}

/// Threads are many: to read those of all processes would cost more than all the rest.
void ProcessReader::look_into_busiest(const MachineRoots& roots, double seconds,
                                      std::vector<ProcessReading>& processes) {
  constexpr size_t kLookedInto = 4;
  constexpr double kBusy = 0.5;  // cores
  constexpr int64_t kManyThreads = 256;
  std::vector<ProcessReading*> busy;
  for (ProcessReading& p : processes)
    if (p.cores >= kBusy && p.threads <= kManyThreads) busy.push_back(&p);
  std::ranges::sort(busy, std::greater(), [](const ProcessReading* p) { return p->cores; });
  busy.resize(std::min(busy.size(), kLookedInto));
  for (ProcessReading* p : busy) {
    const bool is_known = threads_before_.contains(p->pid);
    const std::vector<ThreadReading> threads = read_threads(roots, p->pid, seconds);
    if (is_known && !threads.empty())
      p->busiest = *std::ranges::max_element(threads, {}, &ThreadReading::cores);
  }
}

}  // namespace brim::diag
