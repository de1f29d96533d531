// Batch normalisation with the statistics of all ranks' samples, for small batches per rank.
//
//   dist::convert_sync_batch_norm(net, world);
//   dist::DataParallel parallel(net, world);  // as without
#pragma once

#include <brim/core/tensor.h>
#include <brim/dist/process_group.h>
#include <brim/nn/module.h>
#include <brim/ops/norm.h>

namespace brim::dist {

/// batch_norm in training as if x were the samples of all ranks in one tensor, one or more of each.
/// Gradients, of first order, are those of the sum of all ranks' losses: of x and, as far as this
/// rank's samples go, of weight and bias, which DataParallel adds up. Throws as batch_norm does
/// (for one value per channel where that is all there is), and DistError as collectives do.
Tensor sync_batch_norm(ProcessGroup& group, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormOptions& options = {.training = true});

/// From now on each nn::BatchNorm2d in it normalises with sync_batch_norm in training; in eval
/// nothing changes, nor do names and state. Returns how many there are. For DataParallel with one
/// part for each rank.
int64_t convert_sync_batch_norm(nn::Module& network, const GroupPtr& group);

}  // namespace brim::dist
