// What launchers put into the environment of the processes that they start.
#include <algorithm>
#include <charconv>
#include <climits>
#include <optional>

#include <brim/dist/launch.h>

#include "core/check.h"
#include "core/environment.h"
#include "core/hash.h"
#include "core/printable.h"
#include "dist/socket.h"

namespace brim::dist {
namespace {

constexpr int kPorts = 16;  // that rank 0 tries
constexpr int kMaxWorld = 65536;

/// Variables as they are read; those that are there are listed.
class Variables {
 public:
  explicit Variables(std::vector<std::string>& list) : list_(list) {}

  std::optional<std::string> text(const char* name) {
    std::string value = environment(name);
    if (value.empty()) return std::nullopt;
    list_.push_back(fmt::format("{}={}", name, printable(value)));
    return value;
  }
  std::optional<int> number(const char* name, int most) {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    int number = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
    BRIM_CHECK(error == std::errc() && end == value->data() + value->size() && number >= 0 &&
                   number <= most,
               ValueError, "[dist] {}='{}': must be a number from 0 to {}", name, *value, most);
    return number;
  }

 private:
  std::vector<std::string>& list_;
};

std::vector<uint16_t> ports_from(int first) {
  constexpr int kLowest = 1024, kCount = 65536 - kLowest;
  std::vector<uint16_t> ports;
  for (int i = 0; i < kPorts; ++i)
    ports.push_back(static_cast<uint16_t>(
        first < kLowest ? first + i : kLowest + (first - kLowest + i) % kCount));
  return ports;
}
/// For launchers that name none: below those that systems give out by themselves.
std::vector<uint16_t> ports_of_job(const std::string& job) {
  return ports_from(15000 + static_cast<int>(xxh64(job.data(), job.size()) % 15000));
}

std::optional<int> port_of(Variables& v) {
  const std::optional<int> port = v.number("MASTER_PORT", 65535);
  BRIM_CHECK(!port || *port > 0, ValueError, "[dist] MASTER_PORT=0: choose one from 1024 to 65535");
  return port;
}

void check_within(const char* rank_name, int rank, const char* size_name, int size) {
  BRIM_CHECK(size > 0 && size <= kMaxWorld, ValueError, "[dist] {}={}: must be 1 to {}", size_name,
             size, kMaxWorld);
  BRIM_CHECK(rank < size, ValueError, "[dist] {}={} and {}={}: ranks are 0 to {}", rank_name, rank,
             size_name, size, size - 1);
}

bool read_torchrun(LaunchEnvironment& e, Variables& v) {
  const std::optional<int> rank = v.number("RANK", kMaxWorld),
                           size = v.number("WORLD_SIZE", kMaxWorld);
  if (!rank && !size) return false;
  BRIM_CHECK(rank && size, ValueError, "[dist] {} is set and {} is not; set both, or none",
             rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK");
  check_within("RANK", *rank, "WORLD_SIZE", *size);
  e.rank = *rank, e.size = *size;
  e.local_rank = v.number("LOCAL_RANK", kMaxWorld).value_or(0);
  e.local_size = v.number("LOCAL_WORLD_SIZE", kMaxWorld).value_or(e.local_rank + 1);
  check_within("LOCAL_RANK", e.local_rank, "LOCAL_WORLD_SIZE", e.local_size);
  BRIM_CHECK(e.local_size <= e.size, ValueError,
             "[dist] LOCAL_WORLD_SIZE={} and WORLD_SIZE={}: a "
             "part is larger than the whole",
             e.local_size, e.size);
  const std::optional<std::string> address = v.text("MASTER_ADDR");
  const std::optional<int> port = port_of(v);
  BRIM_CHECK(e.size == 1 || (address && port), ValueError,
             "[dist] WORLD_SIZE={}, and {} is not set; set it to the {} of rank 0", e.size,
             address ? "MASTER_PORT" : "MASTER_ADDR", address ? "port" : "host");
  e.address = address.value_or(e.address);
  const std::optional<std::string> run = v.text("TORCHELASTIC_RUN_ID");
  e.launcher = v.text("BRIM_LAUNCHER").value_or(run ? "torchrun" : "RANK and WORLD_SIZE");
  e.restarts = v.number("TORCHELASTIC_RESTART_COUNT", INT_MAX).value_or(0);
  // torchrun itself listens on MASTER_PORT.
  e.ports = ports_from(port.value_or(29500) + (run ? 1 : 0));
  e.token = fmt::format("{} {}", run.value_or("brim"), port.value_or(0));
  return true;
}

bool read_mpirun(LaunchEnvironment& e, Variables& v) {
  const std::optional<int> rank = v.number("OMPI_COMM_WORLD_RANK", kMaxWorld),
                           size = v.number("OMPI_COMM_WORLD_SIZE", kMaxWorld);
  if (!rank || !size) return false;
  check_within("OMPI_COMM_WORLD_RANK", *rank, "OMPI_COMM_WORLD_SIZE", *size);
  e.launcher = "mpirun";
  e.rank = *rank, e.size = *size;
  e.local_rank = v.number("OMPI_COMM_WORLD_LOCAL_RANK", kMaxWorld).value_or(0);
  e.local_size = v.number("OMPI_COMM_WORLD_LOCAL_SIZE", kMaxWorld).value_or(e.local_rank + 1);
  check_within("OMPI_COMM_WORLD_LOCAL_RANK", e.local_rank, "OMPI_COMM_WORLD_LOCAL_SIZE",
               e.local_size);
  const std::optional<std::string> address = v.text("MASTER_ADDR");
  const std::optional<int> port = port_of(v);
  BRIM_CHECK(
      e.local_size == e.size || address, ValueError,
      "[dist] mpirun started {} ranks on several hosts and does not say where rank 0 is; give "
      "it `-x MASTER_ADDR=HOST` with the host of rank 0",
      e.size);
  e.address = address.value_or(e.address);
  const std::string job = v.text("PMIX_NAMESPACE").value_or(environment("OMPI_MCA_ess_base_jobid"));
  e.ports = port ? ports_from(*port) : ports_of_job(job);
  e.token = "mpirun " + job;
  return true;
}

/// "n[01-04,7],m1" -> "n01".
std::string first_host(const std::string& list) {
  const size_t end = list.find_first_of(",[");
  std::string host = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',') return host;
  const size_t number = end + 1, stop = list.find_first_of(",-]", number);
  BRIM_CHECK(stop != std::string::npos, ValueError, "[dist] SLURM_STEP_NODELIST='{}' names no host",
             list);
  const size_t close = list.find(']', stop);
  const size_t next = close == std::string::npos ? std::string::npos : list.find(',', close);
  host += list.substr(number, stop - number);
  if (close != std::string::npos)
    host += list.substr(close + 1, next == std::string::npos ? next : next - close - 1);
  return host;
}

/// "4(x2),3" and node 2 -> 3; 0 where it does not say.
int tasks_of_node(const std::string& text, int node) {
  for (size_t at = 0; at < text.size();) {
    int tasks = 0, times = 1;
    const char* const end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data() + at, end, tasks);
    if (error != std::errc()) return 0;
    if (rest + 2 < end && rest[0] == '(' && rest[1] == 'x') {
      const auto more = std::from_chars(rest + 2, end, times);
      if (more.ec != std::errc() || more.ptr == end || *more.ptr != ')') return 0;
      rest = more.ptr + 1;
    }
    if (node < times) return tasks;
    node -= times;
    at = static_cast<size_t>(rest - text.data()) + 1;
  }
  return 0;
}

bool read_srun(LaunchEnvironment& e, Variables& v) {
  // An sbatch script has SLURM_PROCID and SLURM_NTASKS too, but is no task of a step.
  const std::optional<int> rank = v.number("SLURM_PROCID", kMaxWorld),
                           size = v.number("SLURM_STEP_NUM_TASKS", kMaxWorld);
  if (!rank || !size) return false;
  check_within("SLURM_PROCID", *rank, "SLURM_STEP_NUM_TASKS", *size);
  e.launcher = "srun";
  e.rank = *rank, e.size = *size;
  e.local_rank = v.number("SLURM_LOCALID", kMaxWorld).value_or(0);
  const int nodes = v.number("SLURM_STEP_NUM_NODES", kMaxWorld).value_or(1);
  const int node = v.number("SLURM_NODEID", kMaxWorld).value_or(0);
  const int here = tasks_of_node(v.text("SLURM_STEP_TASKS_PER_NODE").value_or(""), node);
  e.local_size = here > 0 ? here : nodes == 1 ? e.size : e.local_rank + 1;
  check_within("SLURM_LOCALID", e.local_rank, "SLURM_STEP_TASKS_PER_NODE", e.local_size);
  const std::optional<std::string> list = v.text("SLURM_STEP_NODELIST"),
                                   address = v.text("MASTER_ADDR");
  BRIM_CHECK(
      nodes == 1 || list || address, ValueError,
      "[dist] SLURM_STEP_NUM_NODES={}, and neither SLURM_STEP_NODELIST nor MASTER_ADDR is set",
      nodes);
  e.address = address ? *address : nodes == 1 ? "127.0.0.1" : first_host(*list);
  const std::optional<int> port = port_of(v);
  e.restarts = v.number("SLURM_RESTART_COUNT", INT_MAX).value_or(0);
  const std::string job = fmt::format("{}.{}", v.text("SLURM_JOB_ID").value_or(""),
                                      v.text("SLURM_STEP_ID").value_or(""));
  e.ports = port ? ports_from(*port) : ports_of_job(job);
  // A rank that was left behind must not join the job that began anew.
  e.token = fmt::format("srun {} {}", job, e.restarts);
  return true;
}

std::string backend_of(Variables& v, const std::string& launcher) {
  const std::string backend = v.text("BRIM_DIST_BACKEND").value_or("tcp");
  BRIM_CHECK(backend == "tcp" || backend == "mpi", ValueError,
             "[dist] BRIM_DIST_BACKEND='{}' is no backend; use tcp or mpi", printable(backend));
  BRIM_CHECK(backend == "tcp" || launcher == "mpirun" || launcher == "srun", ValueError,
             "[dist] BRIM_DIST_BACKEND=mpi, and this process is a rank as {} says, and not Open "
             "MPI; use mpirun without it, or tcp",
             launcher);
  return backend;
}

}  // namespace

LaunchEnvironment launch_environment() {
  LaunchEnvironment e;
  for (const auto read : {&read_torchrun, &read_mpirun, &read_srun}) {
    std::vector<std::string> variables;
    Variables v(variables);
    if (!read(e, v)) continue;
    if (const std::string token = environment("BRIM_TOKEN"); !token.empty()) {
      e.token = token;
      variables.emplace_back("BRIM_TOKEN=(set)");
    }
    if (e.token.size() > 63)
      e.token = fmt::format("{:016x}", xxh64(e.token.data(), e.token.size()));
    e.backend = backend_of(v, e.launcher);
    e.variables = std::move(variables);
    return e;
  }
  std::vector<std::string> unused;
  Variables v(unused);
  (void)backend_of(v, "mpirun");  // its spelling
  return e;
}

GroupPtr open_world(const LaunchEnvironment& e, const GroupOptions& options) {
  if (e.size == 1) return local_groups(1, options)[0];
  if (e.launcher == "srun" && e.local_size < e.size) {
    const std::string address = resolve(e.address);
    BRIM_CHECK(!address.starts_with("127.") && address != "::1", DistError,
               "[dist] {} is {} on this host, where other hosts cannot come; set MASTER_ADDR to an "
               "address of rank 0's host that they know",
               e.address, address);
  }
  const TcpOptions joined{
      .rank = e.rank,
      .size = e.size,
      .address = e.address,
      .ports = e.ports,
      .token = e.token,
      .join_timeout = static_cast<double>(
          environment_number("BRIM_JOIN_TIMEOUT", static_cast<int64_t>(TcpOptions().join_timeout))),
      .group = options};
  return e.backend == "mpi" ? mpi_group(joined) : tcp_group(joined);
}

GroupPtr open_world(const GroupOptions& options) {
  return open_world(launch_environment(), options);
}

}  // namespace brim::dist
