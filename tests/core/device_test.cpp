// Device: names, parsing, queries, fallback.
#include <gtest/gtest.h>

#include <brim/core/device.h>
#include <brim/core/error.h>
#include <brim/core/tensor.h>

namespace brim {
namespace {

TEST(Device, Parsing) {
  EXPECT_EQ(Device("cpu"), Device::cpu());
  EXPECT_EQ(Device("cpu:0"), Device::cpu());
  EXPECT_EQ(Device("cuda"), Device::cuda(0));
  EXPECT_EQ(Device("gpu:3"), Device::cuda(3));
  EXPECT_EQ(Device("sim:12"), Device::sim(12));
  for (const char* text : {"", "CPU", "cpu:", "cuda:-1", "cuda:+1", "cuda:1x", "cuda: 1",
                           "cuda:99999", "tpu:0", "cuda:0:1", ":0", "cuda:99999999999999999999"})
    EXPECT_THROW(Device{text}, DeviceError) << text;
  try {
    Device("tpu");
  } catch (const DeviceError& e) {
    EXPECT_STREQ(e.what(),
                 "[device] 'tpu' names no device; use cpu, cuda:N (alias gpu:N) or sim:N");
  }
}

TEST(Device, Lists) {
  EXPECT_EQ(Device::list("cpu"), std::vector<Device>{Device::cpu()});
  EXPECT_EQ(Device::list("sim:1,cpu,sim:0"),
            (std::vector<Device>{Device::sim(1), Device::cpu(), Device::sim(0)}));
  EXPECT_EQ(Device::list("sim:all"), Device::all("sim"));
  for (const char* text : {"", "sim:0,", ",sim:0", "sim:0,sim:0", "sim:all,sim:0", "tpu:all", "all",
                           "cpu:all,cpu", "sim:ALL"})
    EXPECT_THROW(Device::list(text), DeviceError) << text;
}

/// A choice that only commands make, so the error names where it may stand.
TEST(Device, AutoIsNoDevice) {
  for (const char* text : {"auto", "auto,cuda:1", "sim:0,auto", "auto:0", "auto:all"}) {
    try {
      (void)Device::list(text);
      FAIL() << text;
    } catch (const DeviceError& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find("'auto' names no device"), std::string::npos) << what;
      EXPECT_NE(what.find("best_device()"), std::string::npos) << what;
    }
  }
}

TEST(Device, NamesRoundTrip) {
  for (const Device d : {Device::cpu(), Device::cuda(0), Device::cuda(7), Device::sim(2)})
    EXPECT_EQ(Device(d.str()), d);
  EXPECT_EQ(Device::cpu().str(), "cpu");
  EXPECT_EQ(Device::cuda(1).str(), "cuda:1");
}

TEST(Device, Queries) {
  EXPECT_EQ(Device::count("cpu"), 1);
  EXPECT_EQ(Device::all("cpu"), std::vector<Device>{Device::cpu()});
  EXPECT_EQ(std::ssize(Device::all("gpu")), Device::count(DeviceKind::cuda));
  EXPECT_THROW(Device::count("tpu"), DeviceError);
  EXPECT_TRUE(Device::cpu().available());
  EXPECT_FALSE(Device(DeviceKind::cpu, 1).available());
  EXPECT_FALSE(Device(DeviceKind::cpu, -1).available());
  EXPECT_FALSE(Device(DeviceKind::cpu, 65536).available());  // is not device 0
}

TEST(Device, FallsBackToTheCpu) {
  EXPECT_EQ(try_gpu(30000), Device::cpu());
  EXPECT_EQ(try_gpu(-1), Device::cpu());
  EXPECT_FALSE(try_all_gpus().empty());
  if (Device::count("cuda") == 0) {
    EXPECT_EQ(try_gpu(), Device::cpu());
    EXPECT_EQ(try_all_gpus(), std::vector<Device>{Device::cpu()});
  }
}

TEST(Device, MissingDevicesAreNamed) {
  try {
    Tensor::empty({2}, f32, Device::cpu().index == 0 ? Device(DeviceKind::cpu, 5) : Device());
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("cpu:5 does not exist"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace brim
