// How fast the ranks of a group reduce.
#pragma once

#include <brim/dist/links.h>
#include <brim/dist/process_group.h>

namespace brim::dist {

/// Times small and large all-reduces of tensors on such a device, and hands rank 0's times to all.
LinkSpeed time_link(ProcessGroup& group, Device device);
/// The same where links are modelled.
LinkSpeed modelled_speed(const Links& links, int ranks);

}  // namespace brim::dist
