// What ranks send each other from GPU to GPU, by NCCL: https://docs.nvidia.com/deeplearning/nccl
#pragma once

#include <span>

#include <brim/core/stream.h>

#include "dist/transport.h"

namespace brim::cuda {

/// Queues what Transport::exchange() does, of memory of the stream's device. All ranks make the
/// first one on a device, which makes their communicator, and meet at each of the next few, to see
/// that all call the same, but not at those of plans; later ones only queue. Where the transport
/// hears that a rank is gone, what is queued ends, and later calls throw. Throws DistError;
/// NotImplemented where NCCL is missing.
void exchange_by_nccl(dist::Transport& transport, const dist::Call& call, Stream stream,
                      std::span<const dist::Outgoing> out, std::span<const dist::Incoming> in);

}  // namespace brim::cuda
