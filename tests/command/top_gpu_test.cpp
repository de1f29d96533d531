// GPUs whose driver hangs.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "command/top/gpu_watch.h"
#include "core/clock.h"
#include "diag/gpu_sensor.h"

namespace brim::top {
namespace {

/// The second device's driver hangs until it is let go.
class HangingSensor final : public diag::GpuSensor {
 public:
  diag::GpuReading read(int device) override {
    std::unique_lock lock(mutex_);
    if (device == 1) changed_.wait(lock, [&] { return let_go_; });
    return {.utilisation = 0.5};
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool let_go_ = false;
};

TEST(TopGpus, OneThatHangsStopsNothing) {
  static HangingSensor sensor;
  diag::set_gpu_sensor(DeviceKind::sim, sensor);
  const double begin = steady_seconds();
  {
    const GpuWatch watch([] { return std::vector{Device::sim(0), Device::sim(1)}; }, 0.05);
    watch.wait_for_first(0.1);
    std::vector<Gpu> gpus;
    while (gpus.size() < 2 || gpus[1].answers) {
      ASSERT_LT(steady_seconds() - begin, 60);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gpus = watch.read();
    }
    EXPECT_GT(gpus[1].age, 3);
    EXPECT_EQ(gpus[0].device, "sim:0");
    EXPECT_EQ(gpus[0].reading.utilisation, 0.5);
    EXPECT_FALSE(gpus[1].reading.utilisation);
  }  // without waiting for the one that hangs
  sensor.let_go();
}

TEST(TopGpus, NoneAreFound) {
  const GpuWatch watch([] { return std::vector<Device>(); }, 0.05);
  watch.wait_for_first(30);
  EXPECT_TRUE(watch.read().empty());
}

}  // namespace
}  // namespace brim::top
