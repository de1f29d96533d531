// Clusters that need not exist: what connects their devices, and a rank among others that are not
// there, to forecast steps with (CompiledStep::forecast).
#pragma once

#include <vector>

#include <brim/dist/process_group.h>

namespace brim::dist {

/// What connects the devices of a cluster. All bandwidths are in bytes/s and count one direction,
/// delays in seconds.
struct Links {
  int ranks_per_host = 0;      ///< 0: all are on one
  double device = 450e9;       ///< from one device to others of its host (NVLink of an H100)
  double device_delay = 8e-6;  ///< seconds from one device to another, without the bytes
  double host = 12.5e9;        ///< from a host, all its devices together, to others (100 Gbit/s)
  double host_delay = 20e-6;   ///< seconds from host to host, without the bytes
  double message = 1e-6;       ///< of a rank's time for each that it sends in an exchange
  double memory = 3.35e12;     ///< of a device, through which gradients are packed and summed
  bool ring = false;  ///< all-reduces go around one ring of all ranks, as NCCL's and Horovod's do
};

/// Seconds of all_reduce() of so many bytes over `ranks` devices, as brim's algorithm moves them:
/// in parts among the ranks of a host, these between hosts, and back. With Links::ring around a
/// ring, whose hops add up and whose slowest link decides (Patarasuk and Yuan, "Bandwidth optimal
/// all-reduce algorithms for clusters of workstations", 2009). Throws ValueError for ranks that do
/// not fill their hosts, and for what is no bandwidth, time or number of bytes.
double all_reduce_seconds(const Links& links, int ranks, double bytes);

/// As local_groups(), over such links: an exchange takes as long as it would take there, and an
/// all_reduce() what it does to Links::memory besides, if what this process does for it takes no
/// longer. Throws ValueError as all_reduce_seconds() does, and for a ring: it is only forecast.
std::vector<GroupPtr> paced_groups(int size, const Links& links, const GroupOptions& options = {});

/// Rank 0 of a group of `size` whose other ranks do not exist: messages come back as they were
/// sent (on GPUs none come), and link_speed() is what the links would give. Throws ValueError as
/// all_reduce_seconds() does.
GroupPtr simulated_group(int size, const Links& links);

}  // namespace brim::dist
