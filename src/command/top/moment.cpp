#include "command/top/moment.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace brim::top {
namespace {

using diag::CoreReading;
using diag::DiskReading;
using diag::MachineReading;
using diag::NetworkReading;
using diag::ProcessReading;
using diag::ThreadReading;

constexpr size_t kMaxRows = 8192;  // of any list

Json core_json(const CoreReading& c) {
  return {{"core", c.index}, {"user", c.user},   {"system", c.system},
          {"wait", c.wait},  {"steal", c.steal}, {"mhz", known(c.mhz)}};
}
CoreReading core_from_json(const Json& c) {
  const auto share = [&](const char* key) {
    return std::clamp(number(c, key).value_or(0), 0.0, 1.0);
  };
  return {
      .index = static_cast<int>(std::clamp<int64_t>(integer(c, "core").value_or(0), 0, 1 << 20)),
      .user = share("user"),
      .system = share("system"),
      .wait = share("wait"),
      .steal = share("steal"),
      .mhz = number(c, "mhz")};
}

Json disk_json(const DiskReading& d) {
  return {{"name", d.name}, {"read", d.read}, {"written", d.written}, {"busy", d.busy}};
}
DiskReading disk_from_json(const Json& d) {
  return {.name = text(d, "name"),
          .read = number(d, "read").value_or(0),
          .written = number(d, "written").value_or(0),
          .busy = number(d, "busy").value_or(0)};
}

Json network_json(const NetworkReading& n) {
  return {{"name", n.name}, {"in", n.in}, {"out", n.out}};
}
NetworkReading network_from_json(const Json& n) {
  return {.name = text(n, "name"),
          .in = number(n, "in").value_or(0),
          .out = number(n, "out").value_or(0)};
}

Json thread_json(const ThreadReading& t) {
  return {{"tid", t.tid}, {"name", t.name}, {"cores", t.cores}};
}
ThreadReading thread_from_json(const Json& t) {
  return {.tid = integer(t, "tid").value_or(0),
          .name = text(t, "name"),
          .cores = number(t, "cores").value_or(0)};
}

Json process_json(const ProcessReading& p) {
  return {{"pid", p.pid},
          {"uid", p.uid},
          {"name", p.name},
          {"command", p.command},
          {"cores", p.cores},
          {"threads", p.threads},
          {"resident", p.resident},
          {"read", known(p.read)},
          {"written", known(p.written)},
          {"busiest", p.busiest ? thread_json(*p.busiest) : Json(nullptr)}};
}
ProcessReading process_from_json(const Json& p) {
  const Json& busiest = member(p, "busiest");
  return {.pid = integer(p, "pid").value_or(0),
          .uid = integer(p, "uid").value_or(0),
          .name = text(p, "name"),
          .command = text(p, "command"),
          .cores = number(p, "cores").value_or(0),
          .threads = integer(p, "threads").value_or(0),
          .resident = integer(p, "resident").value_or(0),
          .read = number(p, "read"),
          .written = number(p, "written"),
          .busiest = busiest.is_object() ? std::optional(thread_from_json(busiest)) : std::nullopt};
}

template <class T, class F>
Json list_json(const std::vector<T>& list, const F& to) {
  Json array = Json::array();
  for (const T& element : list) array.push_back(to(element));
  return array;
}
template <class F>
auto list_from_json(const Json& array, const F& from) {
  std::vector<decltype(from(array))> list;
  for (const Json* element : objects(array, kMaxRows)) list.push_back(from(*element));
  return list;
}

Json machine_json(const MachineReading& m) {
  return {{"seconds", m.seconds},
          {"cores", list_json(m.cores, core_json)},
          {"memory",
           {{"total", m.memory.total},
            {"available", m.memory.available},
            {"swap_total", m.memory.swap_total},
            {"swap_used", m.memory.swap_used}}},
          {"pressure",
           {{"cpu", known(m.pressure.cpu)},
            {"memory", known(m.pressure.memory)},
            {"io", known(m.pressure.io)}}},
          {"disks", list_json(m.disks, disk_json)},
          {"networks", list_json(m.networks, network_json)},
          {"limits",
           {{"cpus", known(m.limits.cpus)},
            {"throttled", known(m.limits.throttled)},
            {"memory", known(m.limits.memory)},
            {"memory_used", known(m.limits.memory_used)}}},
          {"processes", list_json(m.processes, process_json)},
          {"watched", m.watched},
          {"threads", list_json(m.threads, thread_json)}};
}

MachineReading machine_from_json(const Json& m) {
  const Json &memory = member(m, "memory"), &pressure = member(m, "pressure"),
             &limits = member(m, "limits");
  const auto bytes = [&](const char* key) { return integer(memory, key).value_or(0); };
  return {.seconds = number(m, "seconds").value_or(0),
          .cores = list_from_json(member(m, "cores"), core_from_json),
          .memory = {.total = bytes("total"),
                     .available = bytes("available"),
                     .swap_total = bytes("swap_total"),
                     .swap_used = bytes("swap_used")},
          .pressure = {.cpu = number(pressure, "cpu"),
                       .memory = number(pressure, "memory"),
                       .io = number(pressure, "io")},
          .disks = list_from_json(member(m, "disks"), disk_from_json),
          .networks = list_from_json(member(m, "networks"), network_from_json),
          .limits = {.cpus = number(limits, "cpus"),
                     .throttled = number(limits, "throttled"),
                     .memory = integer(limits, "memory"),
                     .memory_used = integer(limits, "memory_used")},
          .processes = list_from_json(member(m, "processes"), process_from_json),
          .watched = integer(m, "watched").value_or(0),
          .threads = list_from_json(member(m, "threads"), thread_from_json)};
}

}  // namespace

Json to_json(const Moment& moment) {
  return {{"schema", "brim.top/1"},
          {"time", moment.time},
          {"hostname", moment.hostname},
          {"machine", machine_json(moment.machine)},
          {"process_count", moment.process_count},
          {"gpus", list_json(moment.gpus, [](const Gpu& gpu) { return to_json(gpu); })},
          {"runs", list_json(moment.runs, [](const Run& run) { return to_json(run); })}};
}

std::optional<Moment> moment_from_json(const Json& document) {
  if (!is_of(document, "brim.top/1")) return {};
  return Moment{.time = number(document, "time").value_or(0),
                .hostname = text(document, "hostname"),
                .machine = machine_from_json(member(document, "machine")),
                .process_count = integer(document, "process_count").value_or(0),
                .gpus = list_from_json(member(document, "gpus"), gpu_from_json),
                .runs = list_from_json(member(document, "runs"), run_from_json)};
}

void keep_busiest(Moment& moment, size_t count) {
  std::set<int64_t> kept;
  for (const Run& run : moment.runs) kept.insert(run.pid);
  for (const Gpu& gpu : moment.gpus)
    for (const diag::GpuProcess& p : gpu.processes) kept.insert(p.pid);
  std::vector<ProcessReading>& all = moment.machine.processes;
  std::ranges::sort(all, std::greater(),
                    [](const ProcessReading& p) { return std::tuple(p.cores, p.resident, p.pid); });
  size_t rank = 0;
  std::erase_if(all,
                [&](const ProcessReading& p) { return rank++ >= count && !kept.contains(p.pid); });
}

}  // namespace brim::top
