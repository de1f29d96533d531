// What connects devices as a profile describes them.
#pragma once

#include <brim/dist/links.h>

#include "backend/sim/profile.h"

namespace brim::dist {

/// Of `ranks` devices; where the profile says nothing of a network, all are on one host. All times
/// are stretched by `slowdown`.
inline Links links_of(const sim::DeviceProfile& profile, int ranks, double slowdown = 1) {
  Links links{.device = profile.peer_link / slowdown,
              .device_delay = profile.link_delay * slowdown,
              .memory = profile.bandwidth / slowdown};
  links.message *= slowdown;
  if (profile.network <= 0) return links;
  links.host = profile.network / slowdown;
  links.host_delay = profile.network_delay * slowdown;
  const int each = profile.devices_per_host;
  if (each > 0 && ranks > each) links.ranks_per_host = each;
  return links;
}

}  // namespace brim::dist
