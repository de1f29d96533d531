// A network on two devices by hand: the first layers live on one, the others on the other, and what
// is between them is sent by to(), through which gradients come back.
//
//   two_devices [DEVICE DEVICE]
//
// The devices are the first two GPUs, or two virtual accelerators, unless named.
#include <cstdio>
#include <exception>

#include <brim/brim.h>

using namespace brim;

struct Net : nn::Module {
  Net(Device a, Device b) : first(a), second(b) {}
  const Device first, second;
  nn::Conv2d& conv1 = add<nn::Conv2d>("conv1", {.in = 3, .out = 16, .kernel = 5, .device = first});
  nn::Conv2d& conv2 =
      add<nn::Conv2d>("conv2", {.in = 16, .out = 32, .kernel = 5, .device = second});
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 32 * 5 * 5, .out = 10, .device = second});

  Tensor forward(const Tensor& x) override {
    const Tensor y = max_pool2d(relu(conv1(x.to(first))), 2).to(second);  // the one copy
    return fc(max_pool2d(relu(conv2(y)), 2).flatten(1));
  }
};

/// The loss of the last of fifty batches.
double train_epoch(Net& net) {
  const data::Loader loader(data::open_shapes10(data::Split::train), {}, {.batch = 100, .seed = 1});
  // One optimizer has the parameters of both devices: it updates each where it lives.
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.05, .momentum = 0.9});
  Tensor loss;
  for (const data::Batch& batch : loader) {
    optimizer.zero_grad();
    loss = cross_entropy(net(batch.x), batch.y.to(net.second));
    loss.backward();
    optimizer.step();
    if (batch.index == 49) break;
  }
  return loss.item();
}

int main(int argc, char** argv) try {
  std::vector<Device> devices = Device::all("cuda");
  if (devices.size() < 2) devices = {Device::sim(0), Device::sim(1)};
  if (argc > 2) devices = {Device(argv[1]), Device(argv[2])};

  manual_seed(0);
  Net split(devices[0], devices[1]);
  manual_seed(0);
  Net whole(devices[0], devices[0]);
  for (const auto& [name, parameter] : split.named_parameters())
    std::printf("%-13s %s\n", name.c_str(), parameter.device().str().c_str());

  const double loss = train_epoch(split);
  std::printf("loss on two devices: %.4f, on one: %.4f\n", loss, train_epoch(whole));

  bool equal = true;
  for (size_t i = 0; i < split.parameters().size(); ++i)
    equal &= split.parameters()[i].cpu().to_vector<float>() ==
             whole.parameters()[i].cpu().to_vector<float>();
  std::printf("weights of both: %s\n", equal ? "the same bits" : "not the same bits");
  return equal && loss < 2.2 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "two_devices: %s\n", e.what());
  return 1;
}
