// How well a network does on a data set.
#include "train/evaluate.h"
#include <brim/autograd/autograd.h>

#include "core/check.h"
#include "train/device_feed.h"
#include "train/metrics.h"

namespace brim::train {

Evaluation evaluate(nn::Module& model, const data::Loader& loader, Device device,
                    const std::function<bool(double)>& progress) {
  data::Loader shared = loader;
  DeviceFeed feed(shared, device);
  return evaluate(model, loader, feed, device, progress);
}

Evaluation evaluate(nn::Module& model, const data::Loader& loader, Feed& feed, Device device,
                    const std::function<bool(double)>& progress) {
  const NoGrad guard;
  struct EvalMode {
    nn::Module& model;
    bool training = model.training();
    ~EvalMode() { model.train(training); }
  } const mode{model};
  model.eval();
  AccuracyMeter meter(static_cast<int64_t>(loader.source().classes().size()), device);
  feed.start(0, 0);
  while (const data::Batch* batch = feed.next()) {
    meter.add(model(batch->x), batch->y);
    feed.ahead();
    const double done = static_cast<double>(batch->index + 1);
    if (progress && !progress(done / static_cast<double>(loader.batches())))
      raise<Error>("[eval] stopped before the end");
  }
  feed.finish();
  const Evaluation result = meter.read(loader.source().classes());
  BRIM_CHECK(result.samples > 0, FileError,
             "[eval] not one of the {} pictures could be read, the first being {}; give other data",
             loader.samples(), loader.source().describe(0));
  return result;
}

}  // namespace brim::train
