// The command `brim` with a task, data, a network, a transform and a metric of one's own: noise is
// taken off waves.
//
//   own_task train waves.toml --out run
//   own_task eval --weights run/model.safetensors
//
// waves.toml:
//   task = "denoise"
//   model = "wave-net"
//   data = "waves"
//   epochs = 5
//   batch = 32
//   [input]
//   transforms = ["noise"]
//   [validation]
//   fraction = 0.1
//   [optimizer]
//   name = "adam"
#include <cmath>

#include <brim/brim.h>
#include <brim/command/cli.h>
#include <brim/train/metric.h>
#include <brim/train/task.h>

using namespace brim;

namespace {

constexpr int64_t kLength = 64;

/// "x" f32 (64): sums of two waves.
class Waves final : public data::Dataset {
 public:
  explicit Waves(data::Split split) : first_(split == data::Split::test ? 4000 : 0) {}
  int64_t size() const override { return first_ == 0 ? 4000 : 500; }
  void get(int64_t i, data::Sample& out) const override {
    data::KeyedRandom random(static_cast<uint64_t>(first_ + i));
    const float a = 0.05f + 0.2f * random.unit(), b = 0.3f * random.unit();
    const std::span<float> x = out.make<float>("x", {kLength});
    for (size_t k = 0; k < x.size(); ++k)
      x[k] = std::sin(a * static_cast<float>(k)) + 0.5f * std::sin(b * static_cast<float>(k));
  }

 private:
  const int64_t first_;
};

/// x becomes y, and x with noise is the new x.
void add_noise(const data::Sample& in, data::Sample& out) {
  const std::span<float> clean = in["x"].values<float>();
  const std::span<float> x = out.make<float>("x", {kLength}), y = out.make<float>("y", {kLength});
  for (size_t k = 0; k < clean.size(); ++k) {
    y[k] = clean[k];
    x[k] = clean[k] + out.random().unit() - 0.5f;
  }
}

class Denoise final : public train::Task {
 public:
  Tensor loss(const Tensor& output, const data::Batch& batch, bool) const override {
    return mse_loss(output, batch.y);
  }
  std::vector<std::string> metrics() const override { return {"noise-left", "rmse"}; }
};

/// The error of what the network puts out over that of what it was given.
class NoiseLeft final : public train::Metric {
 public:
  explicit NoiseLeft(Device device)
      : out_(zeros({}, {.device = device})), in_(zeros({}, {.device = device})) {}
  void add(const Tensor& output, const data::Batch& batch) override {
    out_.add_(sum(square(output - batch.y)));
    in_.add_(sum(square(batch.x - batch.y)));
  }
  double value() const override { return std::sqrt(out_.item() / in_.item()); }
  // So that ranks may share a data set.
  std::vector<double> state() const override { return {out_.item(), in_.item()}; }
  void merge(const std::vector<double>& state) override {
    out_ += state[0];
    in_ += state[1];
  }

 private:
  Tensor out_, in_;
};

struct WaveNet : nn::Module {
  explicit WaveNet(Device device)
      : fc1(add<nn::Linear>("fc1", {.in = kLength, .out = 128, .device = device})),
        fc2(add<nn::Linear>("fc2", {.in = 128, .out = kLength, .device = device})) {}
  Tensor forward(const Tensor& x) override { return fc2(gelu(fc1(x))); }
  nn::Linear &fc1, &fc2;
};

}  // namespace

int main(int argc, char** argv) {
  nn::register_model("wave-net",
                     [](const nn::ModelOptions& o) { return std::make_unique<WaveNet>(o.device); });
  train::register_task("denoise", [](const train::Recipe&) { return std::make_unique<Denoise>(); });
  train::register_data("waves", [](const std::string&, const train::Recipe&,
                                   const train::DataRequest& request) {
    return train::TaskData{.samples = std::make_shared<Waves>(request.split), .outputs = kLength};
  });
  train::register_transform("noise", [](const train::Recipe&, bool) { return add_noise; });
  train::register_metric(
      "noise-left",
      {.make = [](const train::MetricOptions& o) { return std::make_unique<NoiseLeft>(o.device); },
       .higher_is_better = false});
  return cli(argc, argv);
}
