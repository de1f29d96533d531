// A GPU whose context is lost, as after a kernel that read where nothing is: every later call says
// so, nothing hangs, and the process ends. In a process of its own, which is of no more use.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include <brim/brim.h>

#include "core/runtime.h"
#include "message_of.h"

namespace brim {
namespace {

class CudaLost : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0)
      GTEST_SKIP() << "no GPU: " << runtime(DeviceKind::cuda).why_absent();
  }
  const Device gpu = Device::cuda(0);
};

/// Numbers at an address of the device that nobody was given.
Tensor nowhere(Device device) {
  Ref<TensorImpl> impl(new TensorImpl);
  impl->shape = Shape({64});
  impl->strides = {1};
  impl->dtype = f32;
  impl->contiguous = true;
  impl->storage = Storage::wrap(reinterpret_cast<void*>(256), 256, device, {});
  return Tensor(std::move(impl));
}

void lose(Device device) {
  if (runtime(DeviceKind::cuda).description(device.index).starts_with("emulated"))
    setenv("BRIM_EMULATED_LOST", "0", 1);
  else
    (void)relu(nowhere(device));
}

TEST_F(CudaLost, DISABLED_Child) {
  const Tensor x = ones({64}, {.device = gpu});
  auto step = compile([](const Tensor& in) { return relu(in * 2); });
  for (int i = 0; i < 4; ++i) (void)step(x);
  const Stream side = Stream::create(gpu);
  synchronize(gpu);
  lose(gpu);
  const std::string first = tests::message_of<DeviceError>([&] { synchronize(gpu); });
  EXPECT_NE(first.find("[cuda] work queued on cuda:0 failed: "), std::string::npos) << first;
  EXPECT_NE(first.find("start again"), std::string::npos) << first;
  const std::function<void()> calls[] = {[&] { synchronize(gpu); },
                                         [&] { (void)x.to(Device::cpu()); },
                                         [&] { (void)ones({1 << 20}, {.device = gpu}); },
                                         [&] { (void)(x + x), synchronize(gpu); },
                                         [&] { (void)step(x), synchronize(gpu); },
                                         [&] { side.synchronize(); },
                                         [&] {
                                           Event event;
                                           event.record(side);
                                           event.synchronize();
                                         }};
  for (size_t i = 0; i < std::size(calls); ++i)
    EXPECT_NE(tests::message_of<DeviceError>(calls[i]).find("cuda:0"), std::string::npos) << i;
  std::puts("all calls said so");
}

TEST_F(CudaLost, EveryLaterCallSaysSoAndNothingHangs) {
  const std::string command = "timeout -k 5 60 '" +
                              std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --gtest_also_run_disabled_tests --gtest_brief=1 "
                              "--gtest_filter=CudaLost.DISABLED_Child 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  std::array<char, 4096> buffer{};
  while (fgets(buffer.data(), buffer.size(), pipe)) text += buffer.data();
  EXPECT_EQ(pclose(pipe), 0) << text;
  EXPECT_NE(text.find("all calls said so"), std::string::npos) << text;
}

}  // namespace
}  // namespace brim
