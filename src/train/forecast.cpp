#include <brim/train/forecast.h>

#include <brim/autograd/autocast.h>
#include <brim/core/allocator.h>
#include <brim/core/random.h>
#include <brim/core/tf32.h>
#include <brim/core/threads.h>
#include <brim/dist/data_parallel.h>
#include <brim/dist/sync_batch_norm.h>
#include <brim/nn/init.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include <algorithm>
#include <optional>

#include "backend/sim/device.h"
#include "core/check.h"
#include "plan/buckets.h"
#include "train/apply_gradients.h"
#include "train/build.h"
#include "train/loss_meter.h"
#include "train/recipe_model.h"

namespace brim::train {
namespace {

/// Holds an allocator to a limit for a while; 0: leaves it as it is.
class MemoryLimit {
 public:
  MemoryLimit(Allocator& allocator, int64_t limit)
      : allocator_(allocator), before_(allocator.stats().limit) {
    if (limit > 0) allocator.set_limit(limit);
  }
  ~MemoryLimit() { allocator_.set_limit(before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  Allocator& allocator_;
  const int64_t before_;
};

std::string passes_of(const ForecastOptions& o) {
  if (o.overlap || o.ranks == 1) return o.passes;
  BRIM_CHECK(o.passes.empty(), ValueError,
             "[forecast] without overlap all other passes run; leave passes '{}' out", o.passes);
  return "-overlap";
}

/// Has buckets chosen as asked for, for a while.
class BucketingScope {
 public:
  explicit BucketingScope(const ForecastOptions& o) : before_(plan::bucket_rule) {
    using Kind = plan::BucketRule::Kind;
    if (o.bucketing == Bucketing::solved) return;
    BRIM_CHECK(o.bucket_bytes > 0, ValueError, "[forecast] buckets of {} bytes; give more than 0",
               o.bucket_bytes);
    plan::bucket_rule = {.kind = o.bucketing == Bucketing::filled ? Kind::filled : Kind::ready,
                         .bytes = o.bucket_bytes};
  }
  ~BucketingScope() { plan::bucket_rule = before_; }
  BucketingScope(const BucketingScope&) = delete;
  BucketingScope& operator=(const BucketingScope&) = delete;

 private:
  const std::optional<plan::BucketRule> before_;
};

/// Seconds by which a step on the CPU grows as its input is made, where the cores that its threads
/// leave free do not suffice: its threads wait for each other, so one that has no core delays all.
double taken_by_workers(const ForecastOptions& o, double step) {
  if (!o.device.is_cpu()) return 0;
  const int free_cores = std::max(0, available_cpus() - num_threads());
  return std::max(0.0, static_cast<double>(o.batch) * o.seconds_per_sample - free_cores * step);
}

/// What a virtual device's profile says of a training besides its kernels.
void add_device(Forecast& forecast, const ForecastOptions& o, int64_t batch_bytes) {
  forecast.shared = taken_by_workers(o, forecast.step.step);
  const double step = forecast.step.step + forecast.stragglers + forecast.shared;
  forecast.seconds_per_step = step;
  const std::optional<sim::DeviceProfile> profile =
      o.device.kind == DeviceKind::sim ? sim::Devices::all().profile() : std::nullopt;
  if (!profile) return;
  constexpr int kTensors = 2;  // pictures and labels
  forecast.copy =
      kTensors * profile->link_delay + static_cast<double>(batch_bytes) / profile->host_link;
  forecast.launch = profile->launch;
  forecast.seconds_per_step = std::max({step, forecast.copy, forecast.launch});
  forecast.energy = o.ranks * (profile->idle_power * forecast.seconds_per_step +
                               (profile->peak_power - profile->idle_power) * forecast.step.compute);
}

}  // namespace

double expected_slowest(int ranks, double spread) {
  BRIM_CHECK(ranks > 0 && spread >= 0 && spread <= 1, ValueError,
             "[forecast] the slowest of {} ranks, whose steps spread by {}; give 1 rank or more, "
             "and a spread of 0 to 1",
             ranks, spread);
  double harmonic = 0;
  for (int i = 1; i <= ranks; ++i) harmonic += 1.0 / i;
  return 1 + spread * (harmonic - 1);
}

Forecast forecast(const Recipe& recipe, const ForecastOptions& o) {
  BRIM_CHECK(recipe.task == "classify", ValueError,
             "[forecast] {}: its task is {}; only steps that classify pictures are forecast",
             recipe.name, recipe.task);
  BRIM_CHECK(o.batch > 0 && o.outputs > 0 && o.picture > 0, ValueError,
             "[forecast] batches of {}, {} outputs, pictures of {} pixels; give 1 or more", o.batch,
             o.outputs, o.picture);
  const double slowest = expected_slowest(o.ranks, o.step_spread);
  const BucketingScope bucketing(o);
  const dist::GroupPtr group = dist::simulated_group(o.ranks, o.links);
  const int64_t side = recipe.input.size > 0 ? recipe.input.size : o.picture;
  Allocator& memory = Allocator::of(o.device);
  const int64_t before = memory.stats().live;
  const MemoryLimit limit(memory, o.memory_limit > 0 ? before + o.memory_limit : 0);

  const std::unique_ptr<Task> task = make_task(recipe);
  const bool is_run = o.kernels == KernelTimes::measured;
  Generator drawn;  // the program's goes on as if nothing had happened
  const GeneratorScope own_numbers(drawn);
  const std::unique_ptr<nn::Module> network = [&] {
    std::optional<nn::init::SkipInit> no_values;
    if (!is_run) no_values.emplace();
    return make_model(recipe, {.classes = o.outputs, .input = {3, side, side}, .device = o.device});
  }();
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
  const bool has_parts = o.ranks > 1 || recipe.virtual_ranks > 1;
  LossMeter losses(o.device, has_parts ? o.ranks * parts : 1);
  const auto step = [&](const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    Tensor part_losses;
    const Tensor loss = parallel.forward_backward(
        [&](int64_t part) {
          const Autocast scope(autocast_dtype(recipe));
          const int64_t each = o.batch / parts;
          data::Batch batch;
          batch.x = x.slice(0, part * each, (part + 1) * each);
          batch.y = y.slice(0, part * each, (part + 1) * each);
          return task->loss((*network)(batch.x), batch, /*training=*/true);
        },
        [&](const Tensor& value) { (scaler ? scaler->scale(value) : value).backward(); },
        has_parts ? &part_losses : nullptr);
    apply_gradients(*optimizer, scaler ? &*scaler : nullptr, parameters,
                    recipe.optimizer.clip_norm);
    losses.add(loss, part_losses);
  };
  const Tf32 tf32(recipe.precision == "tf32");
  auto compiled = compile(
      step, {.passes = passes_of(o),
             .fixed_layouts = !is_run || recipe.virtual_ranks > 1,  // as the training has it
             .memory_policy = o.memory_policy});
  const auto make_x = [&] { return Tensor::empty({o.batch, 3, side, side}, f32, o.device); };
  const auto make_y = [&] { return Tensor::empty({o.batch}, i64, o.device); };
  Tensor x = make_x(), y = make_y();
  if (is_run && o.x.defined() && o.y.defined() && o.x.shape() == x.shape() &&
      o.y.shape() == y.shape()) {
    x.copy_(o.x);
    y.copy_(o.y);
  } else if (is_run) {
    x.copy_(randn(x.shape(), {.device = o.device}));
    y.copy_(randint(0, o.outputs, y.shape(), {.device = o.device}));
  }
  // The loader copies the next batch meanwhile.
  const std::vector<Tensor> next =
      o.device.is_cpu() ? std::vector<Tensor>{} : std::vector{make_x(), make_y()};
  Forecast forecast{.step = compiled.forecast(x, y), .fit = compiled.memory_fit()};
  forecast.memory = memory.stats().live - before + forecast.step.arena_bytes;
  if (is_run && (!forecast.fit || forecast.fit->fits))
    forecast.step = compiled.measured_forecast(x, y);
  forecast.stragglers = (slowest - 1) * forecast.step.compute;
  add_device(forecast, o,
             x.numel() * static_cast<int64_t>(size_of(f32)) +
                 y.numel() * static_cast<int64_t>(size_of(i64)));
  return forecast;
}

}  // namespace brim::train
