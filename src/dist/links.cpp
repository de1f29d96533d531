#include <brim/dist/links.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "dist/link_speed.h"
#include "dist/transport.h"

namespace brim::dist {
namespace {

/// What ranks exchange in one go: each sends a part of `bytes` to each of the others.
double exchange_seconds(double delay, double message, double bandwidth, int members, double bytes) {
  if (members == 1) return 0;
  return delay + message * (members - 1) + bytes * (members - 1) / members / bandwidth;
}

/// Each part goes around twice, to be summed and to be handed out, by all hops but one; packed
/// before, unpacked behind, and summed at each hop of the first time.
double ring_seconds(const Links& links, int each, int hosts, double bytes) {
  const int ranks = each * hosts;
  const double share = static_cast<double>(ranks - 1) / ranks;
  const bool is_one_host = hosts == 1;
  const double hops = is_one_host ? ranks * links.device_delay
                                  : hosts * links.host_delay + (ranks - hosts) * links.device_delay;
  const double slowest = is_one_host ? links.device
                         : each == 1 ? links.host
                                     : std::min(links.device, links.host);
  return 2 * (share * (hops + bytes / slowest) + (2 + 1.5 * share) * bytes / links.memory);
}

/// The other ranks send what they are sent.
class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(int size, const Links& links) : Transport(0, size), links_(links) {
    if (size > 1 && links.ranks_per_host > 0) set_ranks_per_host(links.ranks_per_host);
  }

  const char* backend() const override { return "simulated"; }
  const Links* modelled() const override { return &links_; }
  void exchange(const Call&, std::span<const Outgoing> out, std::span<const Incoming> in) override {
    std::vector<size_t> taken(static_cast<size_t>(size()));  // of the messages to each
    for (const Incoming& i : in) {
      size_t left = taken[static_cast<size_t>(i.from)]++;
      const auto sent = std::ranges::find_if(
          out, [&](const Outgoing& o) { return o.to == i.from && left-- == 0; });
      if (i.bytes == 0) continue;
      if (sent != out.end() && sent->bytes == i.bytes)
        std::memcpy(i.data, sent->data, i.bytes);
      else
        std::memset(i.data, 0, i.bytes);
    }
  }
  std::unique_ptr<Transport> duplicate(const Call&, double) override {
    return std::make_unique<SimulatedTransport>(size(), links_);
  }
  void abort(const std::string&) noexcept override {}
  double timeout() const override { return 0; }
  std::string peers_fault() override { return ""; }

 private:
  const Links links_;
};

}  // namespace

double all_reduce_seconds(const Links& links, int ranks, double bytes) {
  for (const double rate : {links.device, links.host, links.memory})
    BRIM_CHECK(rate > 0 && std::isfinite(rate), ValueError,
               "[dist] a link, or memory, of {} B/s; give a number above 0", rate);
  for (const double delay : {links.device_delay, links.host_delay, links.message, bytes})
    BRIM_CHECK(delay >= 0 && std::isfinite(delay), ValueError,
               "[dist] a delay of {} s, or so many bytes; give 0 or more", delay);
  BRIM_CHECK(ranks > 0 && links.ranks_per_host >= 0, ValueError,
             "[dist] a group of {} ranks, {} on each host; give 1 or more", ranks,
             links.ranks_per_host);
  if (ranks == 1) return 0;
  const int each = links.ranks_per_host > 0 ? links.ranks_per_host : ranks;
  BRIM_CHECK(ranks % each == 0, ValueError,
             "[dist] {} ranks are not {} on each host; give a number that divides them", ranks,
             each);
  const int hosts = ranks / each;
  if (links.ring) return ring_seconds(links, each, hosts, bytes);
  const double here =
      exchange_seconds(links.device_delay, links.message, links.device, each, bytes);
  const double across = exchange_seconds(links.host_delay, links.message, links.host, hosts, bytes);
  const double summed = seconds_through_memory(links, each, hosts, bytes * (each - 1) / each,
                                               bytes * (hosts - 1) / ranks);
  return 2 * (here + across + summed);
}

double seconds_through_memory(const Links& links, int each, int hosts, double here, double across) {
  // Of two exchanges, half each. Packed before and unpacked behind: read and written twice, by
  // those among the ranks of a host where there are several. Summed: each node read, and one of two
  // written.
  const double packed = each > 1    ? here * each / (each - 1)
                        : hosts > 1 ? across * hosts / (hosts - 1)
                                    : 0;
  return (2 * packed + 1.5 * (here + across)) / links.memory;
}

LinkSpeed modelled_speed(const Links& links, int ranks) {
  constexpr double kBytes = 1e6;
  const double latency = all_reduce_seconds(links, ranks, 0);
  return {.latency = latency,
          .seconds_per_byte = (all_reduce_seconds(links, ranks, kBytes) - latency) / kBytes};
}

GroupPtr simulated_group(int size, const Links& links) {
  (void)all_reduce_seconds(links, size, 0);
  return std::make_shared<ProcessGroup>(std::make_unique<SimulatedTransport>(size, links));
}

}  // namespace brim::dist
