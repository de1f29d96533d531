// The stream checker over CUDA's devices, with BRIM_CUDA_CHECK=1 (ctest's backend_cuda_checked): a
// missing wait is found when the work is queued, also where it is a graph's.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "core/runtime.h"
#include "message_of.h"

namespace brim {
namespace {

using tests::message_of;

class CudaChecker : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0)
      GTEST_SKIP() << "no GPU: " << runtime(DeviceKind::cuda).why_absent();
    const char* check = std::getenv("BRIM_CUDA_CHECK");
    if (!check || *check != '1') GTEST_SKIP() << "BRIM_CUDA_CHECK is not 1";
    main_ = Stream::current(device_);
    side_ = Stream::create(device_);
    synchronize(device_);
  }
  void TearDown() override {
    if (Device::count(DeviceKind::cuda) > 0) synchronize(device_);
  }
  static void wait(const Stream& waits, const Stream& for_this) {
    Event event;
    event.record(for_this);
    event.wait(waits);
  }
  const Device device_ = Device::cuda(0);
  Stream main_, side_;
};

TEST_F(CudaChecker, ReadingWhatIsStillWritten) {
  const Tensor x = ones({64}, {.device = device_});
  const StreamGuard guard(side_);
  const std::string what = message_of<StreamError>([&] { (void)(x + x); });
  for (const std::string& part :
       {"[add] cuda:0 stream " + std::to_string(side_.id), std::string("reads 256 bytes"),
        std::string("that 'fill' writes on cuda:0 stream 0"), std::string("record an Event there")})
    EXPECT_NE(what.find(part), std::string::npos) << what;
  wait(side_, main_);
  EXPECT_EQ((x + x).to_vector<float>(), std::vector<float>(64, 2));
}

TEST_F(CudaChecker, WritingWhatIsStillRead) {
  Tensor x = ones({64}, {.device = device_}), y;
  wait(side_, main_);
  {
    const StreamGuard guard(side_);
    y = x + x;
  }
  const std::string what = message_of<StreamError>([&] { x.fill_(3); });
  EXPECT_NE(what.find("writes 256 bytes that 'add' reads"), std::string::npos) << what;
  synchronize(device_);  // the host has waited, so what comes now is later
  x.fill_(3);
}

TEST_F(CudaChecker, CopyingWhatIsStillWritten) {
  const Tensor x = ones({64}, {.device = device_});
  const StreamGuard guard(side_);
  const std::string what = message_of<StreamError>([&] { (void)x.to(Device::cpu()); });
  EXPECT_NE(what.find("[copy] cuda:0 stream"), std::string::npos) << what;
}

TEST_F(CudaChecker, AGraphReadsWhatItsStepReads) {
  Tensor x = ones({64}, {.device = device_});
  Tensor total = zeros({64}, {.device = device_});
  auto step = compile([&](const Tensor& in) { total.add_(in * 2); });
  for (int i = 0; i < 5; ++i) step(x);
  ASSERT_GT(step.stats().graph_replays, 0);
  wait(side_, main_);
  {
    const StreamGuard guard(side_);
    x.fill_(2);
  }
  const std::string what = message_of<StreamError>([&] { step(x); });
  EXPECT_NE(
      what.find("[a compiled step's graph] cuda:0 stream 0 reads 256 bytes that 'fill' writes"),
      std::string::npos)
      << what;
  wait(main_, side_);
  step(x);
  EXPECT_EQ(total.to_vector<float>(), std::vector<float>(64, 14));
}

}  // namespace
}  // namespace brim
