// In place of nccl.cpp where nccl.h was missing when brim was built.
#include "dist/cuda/nccl.h"

#include "core/check.h"

namespace brim::cuda {

void exchange_by_nccl(dist::Transport&, const dist::Call& call, Stream,
                      std::span<const dist::Outgoing>, std::span<const dist::Incoming>) {
  raise<NotImplemented>(
      "[dist] {} of tensors on GPUs: this brim was built without nccl.h; install NCCL's header "
      "(libnccl-dev, pip's nvidia-nccl-cu13) and build it again",
      call.str());
}

}  // namespace brim::cuda
