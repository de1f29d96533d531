// The chapter "GPUs" of Dive into Deep Learning in brim, step by step as there:
// https://d2l.ai/chapter_builders-guide/use-gpu.html
//
//   gpu_chapter
//
// Runs on the GPUs there are, and on virtual accelerators (sim:0, sim:1, ...) where there is none.
// The exercises at the chapter's end are measured by `brim bench gpu-chapter`.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <brim/brim.h>

using namespace brim;

namespace {

void print(const char* what, const std::string& value) {
  std::printf("%-34s %s\n", what, value.c_str());
}

/// The chapter's num_gpus() and try_gpu(), over whatever accelerators there are.
std::vector<Device> accelerators() {
  const std::vector<Device> gpus = Device::all("gpu");
  return gpus.empty() ? Device::all("sim") : gpus;
}

Device try_accelerator(size_t index) {
  const std::vector<Device> devices = accelerators();
  return index < devices.size() ? devices[index] : Device::cpu();
}

}  // namespace

int main() try {
  std::printf("6.7.1 Computing devices\n");
  print("cpu, gpu(0), gpu(1):",
        Device::cpu().str() + ", " + Device::cuda(0).str() + ", " + Device::cuda(1).str());
  print("GPUs, virtual accelerators:",
        std::to_string(Device::count("gpu")) + ", " + std::to_string(Device::count("sim")));
  print("the 11th accelerator, or the CPU:", try_accelerator(10).str());
  const Device d0 = try_accelerator(0), d1 = try_accelerator(1);

  std::printf("\n6.7.2 Tensors and devices\n");
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F}, {3});
  print("x is made on", x.device().str());
  const Tensor X = ones({2, 3}, {.device = d0});
  print("X =", X.str());
  const Tensor Y = rand({2, 3}, {.device = d1});
  print("Y =", Y.str());
  try {
    (void)(X + Y);
    print("X + Y:", "both live on " + d0.str());
  } catch (const DeviceError& e) {  // nothing is copied behind your back
    print("X + Y:", e.what());
  }
  const Tensor Z = X.to(d1);
  print("Z = X.to(the device of Y) =", Z.str());
  print("Y + Z =", (Y + Z).str());
  print("Z.to(its own device) is Z:", Z.to(d1).is_same(Z) ? "yes" : "no");
  print("Z.copy_to(its own device) is Z:", Z.copy_to(d1).is_same(Z) ? "yes" : "no");
  try {
    (void)Z.data<float>();
    print("host pointer:", "Z lives on the CPU");
  } catch (const DeviceError& e) {
    print("host pointer:", e.what());
  }

  std::printf("\n6.7.3 Neural networks and devices\n");
  nn::Sequential net;
  net.push<nn::Linear>({.in = 3, .out = 1});
  net.to(d0);
  print("net(X) =", net(X).str());
  print("its weight lives on", net.parameters()[0].device().str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
