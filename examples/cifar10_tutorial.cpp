// PyTorch's tutorial "Training a classifier" in brim, step by step as there:
// https://pytorch.org/tutorials/beginner/blitz/cifar10_tutorial.html
//
//   cifar10_tutorial [DATA [DEVICE]]
//
// DATA is a folder with CIFAR-10's binary files, a folder or tar of one folder per class, or
// shapes10 (the default), a set of drawn shapes that needs no download. DEVICE is the first GPU, or
// the CPU if there is none, unless named: cpu, cuda:1, sim:0.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <brim/brim.h>

using namespace brim;

// 2. Define a convolutional neural network
struct Net : nn::Module {
  nn::Conv2d& conv1 = add<nn::Conv2d>("conv1", {.in = 3, .out = 6, .kernel = 5});
  nn::MaxPool2d& pool = add<nn::MaxPool2d>("pool", {.kernel = 2, .stride = 2});
  nn::Conv2d& conv2 = add<nn::Conv2d>("conv2", {.in = 6, .out = 16, .kernel = 5});
  nn::Linear& fc1 = add<nn::Linear>("fc1", {.in = 16 * 5 * 5, .out = 120});
  nn::Linear& fc2 = add<nn::Linear>("fc2", {.in = 120, .out = 84});
  nn::Linear& fc3 = add<nn::Linear>("fc3", {.in = 84, .out = 10});

  Tensor forward(const Tensor& x) override {
    Tensor y = pool(relu(conv1(x)));
    y = pool(relu(conv2(y)));
    y = y.flatten(1);  // flatten all dimensions except batch
    y = relu(fc1(y));
    y = relu(fc2(y));
    return fc3(y);
  }
};

int main(int argc, char** argv) try {
  const std::string where = argc > 1 ? argv[1] : "shapes10";
  const Device device = argc > 2 ? Device(argv[2]) : try_gpu();
  std::printf("training on %s\n", device.str().c_str());
  manual_seed(0);

  // 1. Load and normalize the data
  const data::Transform transform{
      .normalize = {.mean = {0.5f, 0.5f, 0.5f}, .std = {0.5f, 0.5f, 0.5f}}};
  const data::Loader trainloader(data::Source::open(where, data::Split::train), transform,
                                 {.batch = 4, .shuffle = true});
  const data::Loader testloader(data::Source::open(where, data::Split::test), transform,
                                {.batch = 4, .shuffle = false});
  // Batches come to the device while it works on the ones before.
  data::DeviceLoader trainfeed(trainloader, device), testfeed(testloader, device);
  const std::vector<std::string>& classes = testloader.source().classes();

  Net net;
  net.to(device);

  // 3. Define a loss function and optimizer
  nn::CrossEntropyLoss criterion;
  optim::SGD optimizer(net.parameters(), {.lr = 0.001, .momentum = 0.9});

  // 4. Train the network
  const diag::Accountant accountant({device});            // tells where the time goes
  for (int epoch = 0; epoch < 2; ++epoch) {               // loop over the dataset multiple times
    Tensor running_loss = zeros({}, {.device = device});  // stays on the device until printed
    for (const data::Batch& batch : trainfeed.epoch(epoch)) {
      const Tensor &inputs = batch.x, &labels = batch.y;

      // zero the parameter gradients
      optimizer.zero_grad();

      // forward + backward + optimize
      const Tensor outputs = net(inputs);
      const Tensor loss = criterion(outputs, labels);
      loss.backward();
      optimizer.step();

      // print statistics every 2000 mini-batches
      running_loss.add_(loss.detach());
      if (batch.index % 2000 == 1999) {
        std::printf("[%d, %5d] loss: %.3f\n", epoch + 1, static_cast<int>(batch.index) + 1,
                    running_loss.item() / 2000);
        running_loss.zero_();
      }
    }
  }
  synchronize(device);
  std::printf("Finished Training; the time of %s went into\n%s\n", device.str().c_str(),
              accountant.read(device).table().c_str());

  // Save the trained model, and load it back into a new one
  const std::string path = "cifar_net.safetensors";
  io::save_safetensors(path, net.state_dict());
  Net trained;
  trained.load_state_dict(io::load_safetensors(path));
  trained.to(device).eval();

  // 5. Test the network on the test data
  std::vector<int64_t> correct(classes.size()), total(classes.size());
  const NoGrad guard;  // since we're not training, we don't need gradients
  for (const data::Batch& batch : testfeed.epoch(0)) {
    const Tensor outputs = trained(batch.x);
    // the class with the highest energy is what we choose as prediction
    const std::vector<int64_t> predicted =
        topk(outputs, 1, 1).indices.flatten().to_vector<int64_t>();
    const std::vector<int64_t> labels = batch.y.to_vector<int64_t>();
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto label = static_cast<size_t>(labels[i]);
      total[label] += 1;
      correct[label] += predicted[i] == labels[i];
    }
  }

  int64_t all_correct = 0, all = 0;
  for (size_t c = 0; c < classes.size(); ++c) {
    all_correct += correct[c];
    all += total[c];
  }
  std::printf("Accuracy of the network on the %d test images: %.1f %%\n", static_cast<int>(all),
              100.0 * static_cast<double>(all_correct) / static_cast<double>(all));
  for (size_t c = 0; c < classes.size(); ++c)
    std::printf("Accuracy for class: %-10s is %.1f %%\n", classes[c].c_str(),
                100.0 * static_cast<double>(correct[c]) / static_cast<double>(total[c]));
} catch (const std::exception& e) {
  std::fprintf(stderr, "cifar10_tutorial: %s\n", e.what());
  return 1;
}
