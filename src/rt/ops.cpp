// All ops of this runtime. That of one engine has a table of those that it needs.
#include "rt/step.h"

namespace brim::rt {

const Op* const kOps[] = {
    &kConvolutionOp, &kWinogradOp, &kDepthwiseOp, &kMaxPoolOp,         &kAveragePoolOp,
    &kUnaryOp,       &kBinaryOp,   &kSoftmaxOp,   &kLayerNormOp,       &kCopyOp,
    &kMatmulOp,      &kGatherOp,   &kQuantizeOp,  &kInt8ConvolutionOp, &kInt8WinogradOp,
    &kPictureOp,     &kTopOp,      &kArgmaxOp,    &kQuantizeColoursOp, &kPlaneConvolutionOp,
    &kResizeOp,      nullptr};

}  // namespace brim::rt
