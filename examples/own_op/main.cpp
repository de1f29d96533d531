// Uses the three ops on a device: eager with gradients, and in a compiled step.
//
//   own_op [DEVICE [PLUGIN]]
//
// DEVICE is the CPU unless named (sim:0, cuda:0). PLUGIN is the library with the CUDA kernels.
#include <cstdio>
#include <exception>

#include <brim/brim.h>
#include <brim/extend.h>

#include "own_ops.h"

using namespace brim;

int main(int argc, char** argv) try {
  const Device device = argc > 1 ? Device(argv[1]) : Device::cpu();
  if (argc > 2) std::printf("plugin %s\n", load_plugin(argv[2]).c_str());
  manual_seed(0);

  const Tensor w = randn({4, 8}, {.device = device, .requires_grad = true});
  const auto loss_of = [&](const Tensor& x) {
    return mean(own::softsign(own::l1_distances(x, w)));
  };
  const Tensor x = randn({16, 8}, {.device = device});
  const Tensor loss = loss_of(x);
  loss.backward();
  std::printf("%s: loss %.6f, gradient %.6f\n", device.str().c_str(), loss.item(),
              sum(abs(w.grad())).item());

  auto step = compile(loss_of);
  std::printf("compiled: loss %.6f\n", step(x).item());
  if (device.kind != DeviceKind::cuda)  // it has no kernel there
    std::printf("log_mean_exp: %.6f\n", sum(own::log_mean_exp(x)).item());
} catch (const std::exception& e) {
  std::fprintf(stderr, "own_op: %s\n", e.what());
  return 1;
}
