// Mixed precision by hand: products and convolutions in 16 bits, weights and gradients in f32, and,
// for f16, a loss that is scaled up so that small gradients do not vanish (Micikevicius et al.
// 2018).
//
//   mixed_precision [DEVICE [f16 | bf16 | f32]]
//
// DEVICE is the first GPU, or the CPU if there is none, unless named. The CPU computes 16 bits by
// way of f32: there it shows the results, not the speed.
#include <cstdio>
#include <exception>
#include <string>

#include <brim/brim.h>

using namespace brim;

int main(int argc, char** argv) try {
  const Device device = argc > 1 ? Device(argv[1]) : try_gpu();
  const std::string wanted = argc > 2 ? argv[2] : "f16";
  const DType dtype = wanted == "f16" ? f16 : wanted == "bf16" ? bf16 : f32;
  manual_seed(0);

  const data::Loader loader(data::open_shapes10(data::Split::train), {}, {.batch = 50});
  const data::Loader test(data::open_shapes10(data::Split::test), {},
                          {.batch = 100, .shuffle = false});
  data::DeviceLoader feed(loader, device), test_feed(test, device);
  const auto net = nn::make_model("tutorial-cnn", {.device = device});
  optim::SGD optimizer(net->named_parameters(), {.lr = 0.02, .momentum = 0.9});
  optim::GradScaler scaler(device);
  const bool scales = dtype == f16;  // bf16 has the range of f32

  auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast scope(dtype);  // of the forward pass alone
      loss = cross_entropy((*net)(x), y);
    }
    if (scales) {
      scaler.scale(loss).backward();
      scaler.unscale_(optimizer);  // so that the gradients can be clipped
      optim::clip_grad_norm_(net->parameters(), 5);
      scaler.step(optimizer);  // left out where a gradient overflowed
      scaler.update();
    } else {
      loss.backward();
      optim::clip_grad_norm_(net->parameters(), 5);
      optimizer.step();
    }
    return loss.detach();
  });

  Tensor sum = zeros({}, {.device = device});  // read once, at the end
  for (const data::Batch& batch : feed.epoch(0)) sum.add_(step(batch.x, batch.y));
  const double loss = sum.item() / static_cast<double>(loader.batches());
  std::printf("%s on %s: mean loss %.4f, weights in %s\n", std::string(name(dtype)).c_str(),
              device.str().c_str(), loss, std::string(name(net->parameters()[0].dtype())).c_str());
  if (scales) std::printf("scale of the loss: %.0f\n", scaler.get_scale());
  const double accuracy = train::evaluate(*net, test_feed).accuracy();
  std::printf("accuracy %.1f %%\n", 100 * accuracy);
  return accuracy > 0.2 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "mixed_precision: %s\n", e.what());
  return 1;
}
