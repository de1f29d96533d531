// A loop of one's own that several ranks share. Each has its part of every batch; all end with the
// same weights, whatever their number is:
//
//   build/bin/brim launch -n 4 build/examples/data_parallel     or mpirun, torchrun --no-python,
//   srun
//
// Started alone, it is a run of one rank.
#include <brim/brim.h>

#include <cstdio>

using namespace brim;

int main() try {
  constexpr int64_t kBatch = 32, kParts = 4;  // of all ranks; a batch is cut into so many parts
  const dist::GroupPtr world = dist::open_world();
  if (kParts % world->size() != 0) throw ValueError("start 1, 2 or 4 ranks");
  set_num_threads(1);

  data::LoaderOptions options{.batch = kBatch / world->size(), .seed = 1};
  options.rank = world->rank();
  options.world_size = world->size();
  options.multiple_of = kParts;
  const data::Loader loader(data::open_shapes10(data::Split::train), {}, options);

  manual_seed(1);
  const auto net = nn::make_model("tutorial-cnn", {});
  dist::DataParallel parallel(*net, world, kParts);  // all begin with rank 0's weights
  optim::SGD optimizer(net->parameters(), {.lr = 0.01, .momentum = 0.9});

  // The step is compiled with the reduction of the gradients in it.
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = parallel.forward_backward([&](int64_t part) {
      const int64_t n = x.size(0) / parallel.parts(), first = n * part;
      return cross_entropy((*net)(x.slice(0, first, first + n)), y.slice(0, first, first + n));
    });
    optimizer.step();
    return loss;
  });

  Tensor sum = zeros({});
  int64_t steps = 0;
  for (data::Batch& batch : loader.epoch(0)) {
    sum += step(batch.x, batch.y);
    if (++steps % 100 == 0 && world->rank() == 0)
      std::printf("step %lld: loss %.4f\n", static_cast<long long>(steps), sum.item() / steps);
  }
  if (world->rank() == 0) {
    io::save_safetensors("data_parallel.safetensors", net->state_dict());
    std::printf("%d ranks, %lld steps; weights in data_parallel.safetensors\n", world->size(),
                static_cast<long long>(steps));
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
