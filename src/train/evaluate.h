// How well a network does on a data set that ranks share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <brim/core/error.h>
#include <brim/data/sampler.h>
#include <brim/dist/process_group.h>
#include <brim/train/metric.h>
#include <brim/train/trainer.h>

namespace brim::train {

/// Whether all these metrics know what parts of a data set add up to.
bool can_be_shared(const std::vector<std::string>& metrics, const MetricOptions& options);

/// Of `samples` in batches, every world_size-th batch: those of one rank. The batches are those
/// that one rank alone would make, so what they add up to is the same but for the order.
std::shared_ptr<const data::Sampler> batches_of_rank(int64_t samples, int64_t batch, int rank,
                                                     int world_size);

/// What evaluate() throws when `progress` returns false.
class EvaluationStopped final : public Error {
  using Error::Error;
};

/// evaluate() of the ranks' batches together: the same in all of them. Null: the loader has all.
/// Where `progress` stops one rank, all throw EvaluationStopped, once each has ended its part.
Evaluation evaluate_shared(nn::Module& model, data::DeviceLoader& loader, const Recipe& recipe,
                           const TaskData& data, dist::ProcessGroup* group,
                           const std::function<bool(double fraction)>& progress,
                           int64_t most_wrong = 0);

}  // namespace brim::train
