// How fast the ranks of a group reduce.
#pragma once

#include <brim/dist/links.h>
#include <brim/dist/process_group.h>

namespace brim::dist {

/// Times small and large all-reduces of tensors on such a device, and hands rank 0's times to all.
LinkSpeed time_link(ProcessGroup& group, Device device);
/// The same where links are modelled.
LinkSpeed modelled_speed(const Links& links, int ranks);
/// Seconds in which memory passes what an exchange of an all_reduce() brings a rank: bytes from
/// ranks of its host, of `each` of them, and from others, on `hosts`.
double seconds_through_memory(const Links& links, int each, int hosts, double here, double across);

}  // namespace brim::dist
