// Trainings that begin without some channels of their network (PruneRecipe).
#include <brim/compress/channels.h>
#include <brim/data/device_loader.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "train/build.h"
#include "train/recipe_model.h"
#include "train/trainer_state.h"

namespace brim::train {
namespace {

constexpr int64_t kSamples = 512, kMaxBatch = 64;  // that channels are chosen by

}  // namespace

void Trainer::State::leave_out_channels() {
  if (options.weights.empty() && options.warn)
    options.warn(
        "the channels of a network that is not trained yet go by chance; begin with weights "
        "(TrainOptions::weights)");
  Recipe how = recipe;
  how.batch = kMaxBatch;
  how.input.crop_padding = 0;
  how.input.random_resized_crop = how.input.flip = false;
  // The same samples in all ranks.
  const data::Loader loader = loader_of(how, train->data, true, options.workers,
                                        {options.devices[0], AugmentOn::automatic});
  data::DeviceLoader samples(loader, options.devices[0]);
  std::vector<Tensor> inputs;
  int64_t count = 0;
  for (const data::Batch& batch : samples) {
    const int64_t wanted = std::min(batch.x.size(0), kSamples - count);
    if (wanted <= 0) break;
    inputs.push_back(batch.x.slice(0, 0, wanted).clone());
    count += wanted;
  }
  BRIM_CHECK(!inputs.empty(), ValueError,
             "[train] {} has no training samples, by which channels are chosen", recipe.data);
  const compress::ShrunkNetwork shrunk =
      compress::shrink_channels(*model, inputs[0],
                                [&] {
                                  for (const Tensor& x : inputs) (void)(*model)(x);
                                },
                                {.sparsity = recipe.prune.sparsity,
                                 .dense = recipe.prune.dense,
                                 .layers = recipe.prune.layers});
  recipe.channels = with_channels(recipe.channels, shrunk.channels);
  make_optimizer_of_model();
}

void Trainer::State::take_channels(const ChannelsRecipe& channels) {
  if (recipe.channels.inputs == channels.inputs && recipe.channels.outputs == channels.outputs)
    return;
  compress::resize_channels(*model, channels_of(channels));
  recipe.channels = channels;
  make_optimizer_of_model();
}

}  // namespace brim::train
