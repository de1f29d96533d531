// Training steps of networks: forward, loss, backward and an update by SGD with momentum, or of
// blocks by AdamW. The batches are in memory; a step takes the next one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <brim/autograd/autocast.h>
#include <brim/io/safetensors.h>
#include <brim/nn/activation.h>
#include <brim/nn/models.h>
#include <brim/nn/resnet.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/loss.h>
#include <brim/ops/shape.h>
#include <brim/optim/adam.h>
#include <brim/optim/grad_scaler.h>
#include <brim/optim/sgd.h>
#include <brim/train/weights.h>

#include "bench/command/blocks.h"
#include "bench/command/cases.h"
#include "bench/command/flops.h"
#include "core/check.h"

namespace brim::command {
namespace {

using Network = std::unique_ptr<nn::Module>;

/// What a case trains on.
struct Data {
  Shape sample;  ///< of one picture or vector
  int64_t batch;
  int64_t classes = 10;
  int64_t batches = 16;
  Shape labels = {};   ///< of one sample; those of a text have one for each token
  bool adamw = false;  ///< how blocks are trained, instead of SGD
};

using Batches = std::vector<std::pair<Tensor, Tensor>>;

/// (N, ...) of a batch's samples or labels.
Shape batch_of(const Data& data, Shape shape) {
  shape.insert(0, data.batch);
  return shape;
}

Batches random_batches(const Data& data) {
  Batches batches;
  for (int64_t i = 0; i < data.batches; ++i)
    batches.emplace_back(rand(batch_of(data, data.sample)) * 2 - 1,
                         randint(0, data.classes, batch_of(data, data.labels)));
  return batches;
}

Batches read_batches(const std::string& path, const Data& data) {
  const io::SafeTensors file(path);
  const Tensor x = file.load("x"), y = file.load("y");
  const int64_t count = x.rank() == 0 ? 0 : x.size(0);
  const Shape one = batch_of(data, data.sample);
  BRIM_CHECK(count > 0 && x.dtype() == DType::f32 && x.select(0, 0).shape() == one, FileError,
             "[bench] x of {} is {} {}; this case takes f32 batches of {}", path, name(x.dtype()),
             x.shape().str(), one.str());
  Shape labels = batch_of(data, data.labels);
  labels.insert(0, count);
  BRIM_CHECK(y.dtype() == DType::i64 && y.shape() == labels, FileError,
             "[bench] y of {} is {} {}; x asks for i64 {}", path, name(y.dtype()), y.shape().str(),
             labels.str());
  Batches batches;
  for (int64_t i = 0; i < count; ++i)
    batches.emplace_back(x.select(0, i).clone(), y.select(0, i).clone());
  return batches;
}

/// The batches as two tensors, (K, N, ...) and (K, N), from which a step takes the next one without
/// the host.
class DeviceBatches {
 public:
  explicit DeviceBatches(const Batches& batches) {
    std::vector<Tensor> x, y;
    std::vector<int64_t> following;
    for (const auto& [images, labels] : batches) {
      x.push_back(images);
      y.push_back(labels);
      following.push_back(static_cast<int64_t>(x.size() % batches.size()));
    }
    x_ = stack(x);
    y_ = stack(y);
    next_ = zeros({1}, {.dtype = i64, .device = x_.device()});
    following_ =
        Tensor::from<int64_t>(following, {static_cast<int64_t>(following.size())}).to(x_.device());
  }
  std::pair<Tensor, Tensor> next() {
    std::pair<Tensor, Tensor> batch{index_select(x_, 0, next_).select(0, 0),
                                    index_select(y_, 0, next_).select(0, 0)};
    next_.copy_(index_select(following_, 0, next_));
    return batch;
  }

 private:
  Tensor x_, y_, next_, following_;
};

/// A network amid its training.
class Training {
 public:
  Training(Network net, Batches batches, const BenchSetup& setup, bool adamw)
      : net_(std::move(net)), batches_(std::move(batches)), autocast_(setup.dtype()) {
    const NamedTensors parameters = net_->named_parameters();
    if (adamw)
      optimizer_ =
          std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 0.001, .eps = 1e-6});
    else
      optimizer_ =
          std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 0.001, .momentum = 0.9});
    if (autocast_ == DType::f16) scaler_.emplace(setup.device);
  }

  nn::Module& network() { return *net_; }
  Tensor step(const Tensor& x, const Tensor& y) {
    optimizer_->zero_grad();
    Tensor loss = forward(x, y);
    if (scaler_) {
      scaler_->scale(loss).backward();
      scaler_->step(*optimizer_);
      scaler_->update();
    } else {
      loss.backward();
      optimizer_->step();
    }
    return loss;
  }
  const Batches& batches() const { return batches_; }
  const std::pair<Tensor, Tensor>& next_batch() {
    const size_t at = next_;
    next_ = (next_ + 1) % batches_.size();
    return batches_[at];
  }

 private:
  Tensor forward(const Tensor& x, const Tensor& y) {
    const Autocast scope(autocast_);
    const Tensor logits = (*net_)(x);
    // Each token is a sample of its own.
    return y.rank() == 1 ? cross_entropy(logits, y)
                         : cross_entropy(logits.flatten(0, -2), y.flatten());
  }

  Network net_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Batches batches_;
  DType autocast_;
  std::optional<optim::GradScaler> scaler_;
  size_t next_ = 0;
};

/// Several steps at once, which find their batches on the device.
BenchRun train_by_graphs(const BenchSetup& setup, const std::shared_ptr<Training>& run) {
  auto step = compile(
      [run, data = DeviceBatches(run->batches())]() mutable {
        const auto [x, y] = data.next();
        return run->step(x, y);
      },
      setup.compile);
  auto compiled = std::make_shared<decltype(step)>(std::move(step));
  return {.step = [compiled, count = setup.steps_per_graph] { (void)compiled->repeat(count, {}); },
          .stats = [compiled] { return compiled->stats(); },
          .explain = [compiled] { return compiled->explain(); },
          .steps = setup.steps_per_graph,
          .network = &run->network()};
}

BenchRun train(const BenchSetup& setup, const std::function<Network()>& make, const Data& data) {
  manual_seed(0);
  Network net = make();
  if (!setup.weights.empty()) train::load_weights(train::WeightsFile(setup.weights), *net);
  net->to(setup.device);
  Batches batches =
      setup.batches.empty() ? random_batches(data) : read_batches(setup.batches, data);
  for (auto& [x, y] : batches) {
    x = x.to(setup.device);
    y = y.to(setup.device);
  }
  auto run = std::make_shared<Training>(std::move(net), std::move(batches), setup, data.adamw);
  if (!setup.compiled) {
    const auto step = [run] {
      const auto& [x, y] = run->next_batch();
      run->step(x, y);
    };
    return {.step = step,
            .traffic = [step] { return eager_traffic(step); },
            .network = &run->network()};
  }
  if (setup.steps_per_graph > 1) return train_by_graphs(setup, run);
  auto step =
      compile([run](const Tensor& x, const Tensor& y) { return run->step(x, y); }, setup.compile);
  auto compiled = std::make_shared<decltype(step)>(std::move(step));
  const auto replay = [run, compiled] {
    const auto& [x, y] = run->next_batch();
    (*compiled)(x, y);
  };
  return {.step = replay,
          .stats = [compiled] { return compiled->stats(); },
          .explain = [compiled] { return compiled->explain(); },
          .network = &run->network()};
}

BenchCase tutorial(int64_t batch) {
  return {.name = fmt::format("tutorial-b{}", batch),
          .about = fmt::format("training step of the tutorial network, batch {}", batch),
          .flops = static_cast<double>(batch) * tutorial_flops(),
          .make =
              [batch](const BenchSetup& setup) {
                return train(setup, [] { return std::make_unique<nn::TutorialCnn>(); },
                             {.sample = {3, 32, 32}, .batch = batch});
              },
          .trains = true};
}

/// Linear layers of the given widths with relu between them, called "0", "2", ...
Network mlp_network(const std::vector<int64_t>& widths) {
  auto net = std::make_unique<nn::Sequential>();
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) net->push<nn::ReLU>();
    net->push<nn::Linear>({.in = widths[i], .out = widths[i + 1]});
  }
  return net;
}

BenchCase mlp(const std::vector<int64_t>& widths, int64_t batch) {
  const std::string layers = fmt::format("{}", fmt::join(widths, "-"));
  return {.name = fmt::format("mlp-{}-b{}", layers, batch),
          .about = fmt::format("training step of linear layers {}, batch {}", layers, batch),
          .flops = static_cast<double>(batch) * mlp_flops(widths),
          .make =
              [widths, batch](const BenchSetup& setup) {
                return train(
                    setup, [&] { return mlp_network(widths); },
                    {.sample = {widths.front()}, .batch = batch, .classes = widths.back()});
              },
          .trains = true};
}

/// torchvision's network for 224x224 pictures of 1000 classes, or with a 3x3 stem for 32x32 ones of
/// ten.
BenchCase resnet(int depth, int64_t side, int64_t batch, int64_t batches, bool large = false) {
  const bool small = side == 32;
  const Data data{
      .sample = {3, side, side}, .batch = batch, .classes = small ? 10 : 1000, .batches = batches};
  return {
      .name = fmt::format("resnet{}-{}-b{}", depth, side, batch),
      .about = fmt::format("training step of ResNet-{0} on {1}x{1}, batch {2}", depth, side, batch),
      .flops = static_cast<double>(batch) * resnet_flops(depth, side, data.classes, small),
      .make =
          [depth, small, data](const BenchSetup& setup) {
            const auto make = [&] {
              return std::make_unique<nn::ResNet>(nn::ResNet::Options{
                  .depth = depth,
                  .classes = data.classes,
                  .stem = small ? nn::ResNet::Stem::small : nn::ResNet::Stem::imagenet});
            };
            return train(setup, make, data);
          },
      .trains = true,
      .large = large};
}

/// `forward`: multiplications of a forward pass of one sample, layer by layer.
BenchCase block(const char* name, const char* about, double flops, const Data& data,
                const std::function<Network()>& make) {
  return {.name = name,
          .about = fmt::format("training step of {}, batch {}", about, data.batch),
          .flops = static_cast<double>(data.batch) * flops,
          .make = [=](const BenchSetup& setup) { return train(setup, make, data); },
          .trains = true};
}

std::vector<BenchCase> blocks() {
  const Data tokens{.sample = {kBlockTokens, kBlockWidth},
                    .batch = 8,
                    .classes = kBlockWidth,
                    .labels = {kBlockTokens},
                    .adamw = true};
  const Data pictures{.sample = {kBlockWidth, kBlockSide, kBlockSide},
                      .batch = 8,
                      .classes = kBlockWidth,
                      .adamw = true};
  return {block("transformer-block", "a transformer's block, 128 tokens of 256",
                transformer_block_flops(), tokens, [] { return transformer_block(0); }),
          block("transformer-block-dropout", "the same with dropout 0.1", transformer_block_flops(),
                tokens, [] { return transformer_block(0.1); }),
          block("convnext-block", "a block of ConvNeXt, 256 channels on 14x14",
                convnext_block_flops(), pictures, convnext_block),
          block("mlp-block", "4 layers of layer norm, linear, GELU, linear, 128 tokens of 256",
                mlp_block_flops(), tokens, mlp_block)};
}

}  // namespace

std::vector<BenchCase> training_cases() {
  std::vector<BenchCase> cases = {tutorial(4),
                                  tutorial(32),
                                  tutorial(128),
                                  mlp({784, 128, 10}, 8),
                                  mlp({784, 512, 512, 10}, 32),
                                  mlp({784, 512, 512, 10}, 256),
                                  resnet(18, 32, 64, 4),
                                  resnet(18, 224, 16, 4)};
  for (BenchCase& bench : blocks()) cases.push_back(std::move(bench));
  cases.insert(cases.end(), {resnet(18, 32, 512, 4, true), resnet(18, 224, 128, 2, true),
                             resnet(50, 224, 128, 2, true)});
  return cases;
}

}  // namespace brim::command
