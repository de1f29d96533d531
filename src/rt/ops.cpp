// All ops of this runtime. A runtime for one model has those that it needs.
#include "rt/step.h"

namespace brim::rt {

const Op* find_op(uint32_t code) {
  static constexpr const Op* kOps[] = {&kConvolutionOp, &kWinogradOp, &kDepthwiseOp, &kMaxPoolOp,
                                       &kAveragePoolOp, &kUnaryOp,    &kBinaryOp,    &kSoftmaxOp,
                                       &kLayerNormOp,   &kCopyOp,     &kMatmulOp,    &kGatherOp};
  for (const Op* op : kOps)
    if (static_cast<uint32_t>(op->code) == code) return op;
  return nullptr;
}

}  // namespace brim::rt
