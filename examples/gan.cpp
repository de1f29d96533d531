// A GAN (Goodfellow et al. 2014): a generator turns noise into points that a discriminator cannot
// tell from those of a ring. Two networks, two optimizers, and detach() where one must not learn.
//
//   gan [DEVICE]
//
// DEVICE is the first GPU, or the CPU if there is none, unless named.
#include <cmath>
#include <cstdio>
#include <exception>

#include <brim/brim.h>

using namespace brim;

constexpr int64_t kBatch = 256, kNoise = 8;

void push_layers(nn::Sequential& net, int64_t in, int64_t out) {
  net.push<nn::Linear>({.in = in, .out = 64}).push<nn::LeakyReLU>({.slope = 0.2});
  net.push<nn::Linear>({.in = 64, .out = 64}).push<nn::LeakyReLU>({.slope = 0.2});
  net.push<nn::Linear>({.in = 64, .out = out});
}

/// Points (N, 2) at a distance of about 1 from the origin.
Tensor ring() {
  const Tensor angle = rand({kBatch, 1}) * 6.283185, radius = randn({kBatch, 1}) * 0.05 + 1;
  return cat({cos(angle) * radius, sin(angle) * radius}, 1);
}

int main(int argc, char** argv) try {
  const DeviceScope scope(argc > 1 ? Device(argv[1])
                                   : try_gpu());  // what is made below lives there
  manual_seed(0);
  nn::Sequential generator, discriminator;
  push_layers(generator, kNoise, 2);
  push_layers(discriminator, 2, 1);
  const optim::AdamOptions options{.lr = 1e-3, .beta1 = 0.5};
  optim::Adam generator_optimizer(generator.named_parameters(), options);
  optim::Adam discriminator_optimizer(discriminator.named_parameters(), options);
  const Tensor real = ones({kBatch, 1}), fake = zeros({kBatch, 1});

  double radius = 0, spread = 0;
  for (int step = 1; step <= 2000; ++step) {
    // The discriminator: what is real, and what is not. No gradient reaches the generator.
    const Tensor made = generator(randn({kBatch, kNoise}));
    discriminator_optimizer.zero_grad();
    const Tensor loss = bce_with_logits(discriminator(ring()), real) +
                        bce_with_logits(discriminator(made.detach()), fake);
    loss.backward();
    discriminator_optimizer.step();

    // The generator: what it made passes for real. Its optimizer leaves the discriminator alone.
    generator_optimizer.zero_grad();
    bce_with_logits(discriminator(made), real).backward();
    generator_optimizer.step();

    if (step % 500 != 0) continue;
    const NoGrad guard;
    const Tensor distance = norm(made, 2, {1});
    radius = mean(distance).item(), spread = stddev(distance).item();
    std::printf("step %d: radius %.3f +- %.3f, of 1 +- 0.05\n", step, radius, spread);
  }
  return std::abs(radius - 1) < 0.2 && spread < 0.3 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gan: %s\n", e.what());
  return 1;
}
