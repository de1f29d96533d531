// Which rank a process is, as the program that started it says, and the group of all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <brim/dist/process_group.h>

namespace brim::dist {

/// Where and as what a process joins the others over TCP.
struct TcpOptions {
  int rank = 0;                       ///< in [0, size)
  int size = 1;                       ///< ranks of the group
  std::string address = "127.0.0.1";  ///< of rank 0's host: it listens there and nowhere else
  std::vector<uint16_t> ports = {};   ///< rank 0 takes the first that is free
  std::string token = {};             ///< ranks with another one are turned away; up to 63 bytes
  /// Seconds in which a rank has to find rank 0, and in which rank 0, from its own start on, has to
  /// be found by all.
  double join_timeout = 60;
  GroupOptions group = {};  ///< of the group that is opened
};

/// The group of the processes that call it with the same size, address, ports and token.
/// Connections go from each to each. Throws ValueError for impossible options; DistError where the
/// address does not resolve or is another host's, ports are in use, a rank is there twice, worlds
/// or builds of brim differ, or ranks do not come in time.
GroupPtr tcp_group(const TcpOptions& options);
/// The same, but Open MPI carries the messages (libmpi.so.40, opened now; BRIM_MPI_LIBRARY names
/// another file), as ranks that mpirun started. Throws DistError also where it is missing, or knows
/// this process as another rank.
GroupPtr mpi_group(const TcpOptions& options);

/// A process among those of a run.
struct LaunchEnvironment {
  /// torchrun, brim launch, RANK and WORLD_SIZE (whoever set them), mpirun, srun or none
  std::string launcher = "none";
  int rank = 0, size = 1;              ///< which rank this is, and of how many
  int local_rank = 0, local_size = 1;  ///< among those of this host
  std::string address = "127.0.0.1";   ///< of rank 0's host
  std::vector<uint16_t> ports;         ///< of rank 0 on its host: the first that is free is taken
  std::string token;                   ///< ranks with another one are turned away
  std::string backend = "tcp";         ///< or "mpi": what carries messages
  int restarts = 0;                    ///< how often the launcher began anew
  std::vector<std::string> variables;  ///< "RANK=1": what it was read from

  bool is_distributed() const { return size > 1; }  ///< whether there are several ranks
};

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun,
/// brim launch, Kubernetes), else OMPI_COMM_WORLD_* (mpirun of Open MPI), else SLURM_* (srun).
/// BRIM_TOKEN replaces the token that is made of the job's number; BRIM_DIST_BACKEND is tcp or mpi.
/// Throws ValueError for variables that are missing, are no numbers or contradict each other.
LaunchEnvironment launch_environment();

/// The group of all ranks of the run: of one, where there are no others. BRIM_JOIN_TIMEOUT replaces
/// TcpOptions::join_timeout, in whole seconds. Throws as those above.
GroupPtr open_world(const GroupOptions& options = {});
/// The same of an environment that was read before.
GroupPtr open_world(const LaunchEnvironment& environment, const GroupOptions& options = {});

}  // namespace brim::dist
