// How well a network does on a data set.
#include <brim/autograd/autograd.h>
#include <brim/train/trainer.h>

#include "core/check.h"
#include "core/device_names.h"
#include "diag/span.h"
#include "train/metrics.h"

namespace brim::train {

Evaluation evaluate(nn::Module& model, const data::Loader& loader, Device device,
                    const std::function<bool(double)>& progress) {
  data::DeviceLoader feed(loader, device);
  return evaluate(model, feed, progress);
}

Evaluation evaluate(nn::Module& model, data::DeviceLoader& feed,
                    const std::function<bool(double)>& progress) {
  BRIM_CHECK(feed.devices().size() == 1, ValueError,
             "[eval] the loader feeds {}; a network is evaluated on one device",
             names_of(feed.devices()));
  const diag::Scope scope("evaluate", diag::Cause::evaluation);
  const NoGrad guard;
  struct EvalMode {
    nn::Module& model;
    bool training = model.training();
    ~EvalMode() { model.train(training); }
  } const mode{model};
  model.eval();
  const data::Loader& loader = feed.loader();
  AccuracyMeter meter(static_cast<int64_t>(loader.source().classes().size()), feed.devices()[0]);
  for (const data::Batch& batch : feed.epoch(0)) {
    meter.add(model(batch.x), batch.y);
    const double done = static_cast<double>(batch.index + 1);
    if (progress && !progress(done / static_cast<double>(loader.batches())))
      raise<Error>("[eval] stopped before the end");
  }
  const Evaluation result = meter.read(loader.source().classes());
  BRIM_CHECK(result.samples > 0, FileError,
             "[eval] not one of the {} pictures could be read, the first being {}; give other data",
             loader.samples(), loader.source().describe(0));
  return result;
}

}  // namespace brim::train
