#include <brim/train/forecast.h>

#include <brim/autograd/autocast.h>
#include <brim/core/allocator.h>
#include <brim/core/tf32.h>
#include <brim/dist/data_parallel.h>
#include <brim/dist/sync_batch_norm.h>
#include <brim/nn/models.h>
#include <brim/ops/shape.h>

#include <optional>

#include "core/check.h"
#include "train/apply_gradients.h"
#include "train/build.h"

namespace brim::train {

Forecast forecast(const Recipe& recipe, const ForecastOptions& o) {
  BRIM_CHECK(recipe.task == "classify", ValueError,
             "[forecast] {}: its task is {}; only steps that classify pictures are forecast",
             recipe.name, recipe.task);
  BRIM_CHECK(o.batch > 0 && o.outputs > 0 && o.picture > 0, ValueError,
             "[forecast] batches of {}, {} outputs, pictures of {} pixels; give 1 or more", o.batch,
             o.outputs, o.picture);
  const dist::GroupPtr group = dist::simulated_group(o.ranks, o.links);
  const int64_t side = recipe.input.size > 0 ? recipe.input.size : o.picture;
  Allocator& memory = Allocator::of(o.device);
  memory.reset_peak();
  const int64_t before = memory.stats().live;

  const std::unique_ptr<Task> task = make_task(recipe);
  const std::unique_ptr<nn::Module> network = nn::make_model(
      recipe.model, {.classes = o.outputs, .input = {3, side, side}, .device = o.device});
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(recipe.optimizer, *network);
  const std::vector<Tensor> parameters = network->parameters();
  std::optional<optim::GradScaler> scaler;
  if (autocast_dtype(recipe) == f16) scaler.emplace(o.device);
  if (recipe.sync_batch_norm) dist::convert_sync_batch_norm(*network, group);
  dist::DataParallel parallel(*network, group, recipe.virtual_ranks);
  parallel.compress_gradients(gradient_dtype(recipe));
  const int64_t parts = parallel.parts();
  BRIM_CHECK(
      o.batch % parts == 0, ValueError,
      "[forecast] a batch of {} has no {} equal parts (Recipe::virtual_ranks is {}, shared by "
      "{} ranks); choose a multiple",
      o.batch, parts, recipe.virtual_ranks, o.ranks);
  const auto step = [&](const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    const Tensor loss = parallel.forward_backward(
        [&](int64_t part) {
          const Autocast scope(autocast_dtype(recipe));
          const int64_t each = o.batch / parts;
          data::Batch batch;
          batch.x = x.slice(0, part * each, (part + 1) * each);
          batch.y = y.slice(0, part * each, (part + 1) * each);
          return task->loss((*network)(batch.x), batch, /*training=*/true);
        },
        [&](const Tensor& value) { (scaler ? scaler->scale(value) : value).backward(); });
    apply_gradients(*optimizer, scaler ? &*scaler : nullptr, parameters,
                    recipe.optimizer.clip_norm);
    return loss;
  };
  const Tf32 tf32(recipe.precision == "tf32");
  auto compiled = compile(step, {.passes = o.overlap ? "" : "-overlap", .fixed_layouts = true});
  const Tensor x = Tensor::empty({o.batch, 3, side, side}, f32, o.device);
  const Tensor y = Tensor::empty({o.batch}, i64, o.device);
  const StepForecast forecast = compiled.forecast(x, y);
  return {forecast, memory.stats().peak_live - before};
}

}  // namespace brim::train
