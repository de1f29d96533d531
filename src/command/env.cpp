// `brim env`: what this machine offers and what this build of brim can use of it.
#include <brim/core/device.h>
#include <brim/core/threads.h>
#include <brim/dist/launch.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backend/cpu/runtime/isa.h"
#include "command/command.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/machine_check.h"
#include "command/report.h"
#include "command/say.h"
#include "core/runtime.h"
#include "diag/gpu_parts.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

/// The value of the first line "KEY : VALUE" of a file in /proc.
std::string proc_value(const char* path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

int64_t meminfo_bytes(std::string_view key) {
  int64_t kib = 0;
  std::istringstream(proc_value("/proc/meminfo", key)) >> kib;
  return kib * 1024;
}

/// The cgroup's memory limit, or 0 for none.
int64_t cgroup_memory_limit() {
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t bytes = 0;
    // Version 1 says "none" with a number near 2^63.
    if (std::ifstream in(path); in >> bytes && bytes > 0 && bytes < (int64_t{1} << 60))
      return bytes;
  }
  return 0;
}

std::string cpu_model() {
  std::string model = proc_value("/proc/cpuinfo", "model name");
  return model.empty() ? "unknown" : model;
}

Json facts() {
  Json env;
  env["version"] = build_versions()["brim"];
  env["cpu"] = {{"model", cpu_model()},          {"online", sysconf(_SC_NPROCESSORS_ONLN)},
                {"available", available_cpus()}, {"isa", cpu::isa()},
                {"isas", cpu::available_isas()}, {"isa_error", cpu::isa_error()}};
  env["memory"] = {{"total", meminfo_bytes("MemTotal")},
                   {"available", meminfo_bytes("MemAvailable")},
                   {"cgroup_limit", cgroup_memory_limit()}};
  env["devices"] = Json::array();
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::sim})
    for (const Device device : Device::all(kind))
      env["devices"].push_back(
          {{"name", device.str()}, {"description", runtime(kind).description(device.index)}});
  env["gpu"] = Json::array();
  for (const diag::GpuPart& part : diag::gpu_parts(diag::gpu_probe())) {
    Json entry = {{"name", part.name}, {"state", part.state}, {"for", part.purpose}};
    if (!part.version.empty()) entry["version"] = part.version;
    if (!part.path.empty()) entry["path"] = part.path;
    if (!part.advice.empty()) entry["advice"] = part.advice;
    env["gpu"].push_back(entry);
  }
  env["libraries"] = Json::array();
  for (const Library& l : libraries()) {
    Json entry = {{"name", l.name}, {"found", l.found}, {"for", l.purpose}};
    if (l.found)
      entry["version"] = l.version;
    else
      entry["install"] = l.package;
    env["libraries"].push_back(entry);
  }
  return env;
}

void print(const Json& env) {
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  say(stdout, "brim     {}\n", text(env["version"]));
  say(stdout, "cpu      {}\n", text(env["cpu"]["model"]));
  say(stdout,
      "         {} of {} CPUs may be used (affinity and cgroup), instruction set {} of {} "
      "(BRIM_CPU_ISA)\n",
      env["cpu"]["available"].get<int>(), env["cpu"]["online"].get<int>(), text(env["cpu"]["isa"]),
      fmt::format("{}", fmt::join(env["cpu"]["isas"].get<std::vector<std::string>>(), ", ")));
  if (const std::string error = text(env["cpu"]["isa_error"]); !error.empty())
    say(stdout, "         {}\n", error);
  const int64_t limit = env["memory"]["cgroup_limit"];
  say(stdout, "memory   {}, {} available{}\n", format_bytes(env["memory"]["total"]),
      format_bytes(env["memory"]["available"]),
      limit ? fmt::format(", cgroup limit {}", format_bytes(limit)) : "");
  const char* head = "devices";
  for (const Json& device : env["devices"]) {
    say(stdout, "{:<8} {:<8} {}\n", head, text(device["name"]), text(device["description"]));
    head = "";
  }
  head = "gpu";
  for (const Json& part : env["gpu"]) {
    std::string facts = part.value("version", "");
    for (const char* key : {"path", "advice"})
      if (part.contains(key)) facts += (facts.empty() ? "" : "; ") + text(part[key]);
    say(stdout, "{:<8} {:<14} {:<10} {} [{}]\n", head, text(part["name"]), text(part["state"]),
        facts, text(part["for"]));
    head = "";
  }
  head = "found";
  for (const Json& l : env["libraries"]) {
    if (!l["found"]) continue;
    say(stdout, "{:<8} {:<16} {:<10} {}\n", head, text(l["name"]), text(l["version"]),
        text(l["for"]));
    head = "";
  }
  head = "missing";
  std::string packages;
  for (const Json& l : env["libraries"]) {
    if (l["found"]) continue;
    say(stdout, "{:<8} {:<16} {:<10} {}; apt-get install {}\n", head, text(l["name"]), "-",
        text(l["for"]), text(l["install"]));
    packages += " " + text(l["install"]);
    head = "";
  }
  if (packages.empty())
    say(stdout, "missing  nothing\n");
  else
    say(stdout, "to install all of them: apt-get install{}, then build again\n", packages);
}

/// What the launcher of this process says.
Json dist_facts() {
  const dist::LaunchEnvironment e = dist::launch_environment();
  return {{"launcher", e.launcher},
          {"rank", e.rank},
          {"world_size", e.size},
          {"local_rank", e.local_rank},
          {"local_world_size", e.local_size},
          {"address", e.address},
          {"ports", e.ports},
          {"backend", e.backend},
          {"restarts", e.restarts},
          {"variables", e.variables}};
}

void print_dist(const Json& e) {
  const std::string launcher = e["launcher"];
  if (launcher == "none") {
    say(stdout,
        "launcher none: one process. mpirun, torchrun, srun and `brim launch` start several\n");
    return;
  }
  say(stdout, "launcher {}\nrank     {} of {}, {} of {} on this host\n", launcher,
      e["rank"].get<int>(), e["world_size"].get<int>(), e["local_rank"].get<int>(),
      e["local_world_size"].get<int>());
  const auto ports = e["ports"].get<std::vector<int>>();
  say(stdout, "rank 0   {}, the first free port from {} to {}\n", e["address"].get<std::string>(),
      ports.front(), ports.back());
  say(stdout, "messages {}\n", e["backend"].get<std::string>());
  if (e["restarts"].get<int>() > 0) say(stdout, "restarts {}\n", e["restarts"].get<int>());
  for (const Json& variable : e["variables"])
    say(stdout, "read     {}\n", variable.get<std::string>());
}

struct EnvOptions {
  bool json = false, dist = false, check = false;
  std::string memory, host_memory, disk;
  CheckRequest request;
};

int check(EnvOptions& o) {
  o.request.memory = parse_bytes(o.memory, "--memory");
  o.request.host_memory = parse_bytes(o.host_memory, "--host-memory");
  o.request.disk = parse_bytes(o.disk, "--disk");
  const std::vector<Finding> findings = check_machine(o.request, machine_probe());
  if (o.json)
    write_json(to_json(findings, o.request), "-");
  else
    print_findings(findings, o.request);
  return is_ready(findings) ? 0 : 1;
}

std::function<int()> define_env(Arguments args) {
  auto o = std::make_shared<EnvOptions>();
  args.flag("--json", o->json, "print one JSON object");
  args.flag("--dist", o->dist, "show which rank this process is, and what says so");
  args.flag("--check", o->check,
            "whether a training can run here, a line for each thing that it needs with the cure "
            "where it is missing; the exit code is 0 only if it can");
  args.add("--device", o->request.device, "that --check is for, as `brim train` takes it")
      .show_default();
  args.add("--precision", o->request.precision, "that --check is for")
      .one_of({"fp32", "tf32", "fp16", "bf16"})
      .show_default();
  o->memory = "512M", o->host_memory = "512M", o->disk = "256M";
  args.add("--memory", o->memory, "that must be free on each device, as 8G; of the host on cpu")
      .show_default();
  args.add("--host-memory", o->host_memory, "that must be free on the host").show_default();
  args.add("--out", o->request.out, "folder that the run will be written to");
  args.add("--disk", o->disk, "that must be free there").show_default();
  args.add("--data", o->request.data, "file or folder that must be readable");
  return [o, args] {
    for (const char* option :
         {"--device", "--precision", "--memory", "--host-memory", "--out", "--disk", "--data"})
      if (!o->check && !args.given(option).empty())
        throw UsageError(fmt::format("{} is for --check", option));
    if (o->check && o->dist) throw UsageError("--check and --dist: give one of them");
    if (o->check) return check(*o);
    const Json env = o->dist ? dist_facts() : facts();
    if (o->json)
      write_json(env, "-");
    else
      (o->dist ? &print_dist : &print)(env);
    return 0;
  };
}

const Register env_command({"env", "show CPU, memory, devices and libraries, and what to install",
                            define_env});

}  // namespace
}  // namespace brim::command
