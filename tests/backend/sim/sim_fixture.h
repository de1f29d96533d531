// Virtual accelerators for tests: five of them, sim:4 with 8 MiB; options are put back at the end.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>

#include <brim/core/sim.h>
#include <brim/core/stream.h>
#include <brim/core/tensor.h>

#include "backend/sim/launch.h"
#include "temporary_folder.h"

namespace brim {

/// Work on a stream that goes on until it is opened, however slow this machine is.
class Gate {
 public:
  explicit Gate(const Stream& stream) {
    sim::enqueue(stream, {.name = "gate", .run = [state = state_] {
                            state->begun.release();
                            state->open.acquire();
                          }});
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Waits until the stream has come here.
  void reach() { state_->begun.acquire(); }
  void open() {
    if (!opened_) state_->open.release();
    opened_ = true;
  }

 private:
  struct State {
    std::binary_semaphore begun{0}, open{0};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  bool opened_ = false;
};

class SimTest : public ::testing::Test {
 protected:
  static constexpr int kDevices = 5;
  static constexpr int kSmall = 4;

  void SetUp() override {
    set_sim_options({.devices = kDevices, .memory = 8 << 20});
    (void)Tensor::empty({1}, f32, Device::sim(kSmall));  // fixes its memory
    set_sim_options({.devices = kDevices});
  }
  void TearDown() override {
    for (const Device d : Device::all("sim")) try {
        synchronize(d);
      } catch (const Error&) {
      }
    set_sim_options({.devices = kDevices});
  }

  /// A profile with these lines in place of the defaults, which are fast and cool.
  void use_profile(const std::string& lines, double slowdown = 1, bool check = false) {
    if (!folder_) folder_.emplace();
    const std::string file = *folder_ / "profile.toml";
    std::ofstream(file) << profile(lines);
    set_sim_options({.devices = kDevices, .profile = file, .slowdown = slowdown, .check = check});
  }

  static std::string profile(const std::string& lines) {
    std::string top, thermal, text;
    const auto line = [&](std::string& section, const char* key, const char* value) {
      if (lines.find(std::string(key) + " ") == std::string::npos)
        section += std::string(key) + " = " + value + "\n";
    };
    line(top, "memory_gb", "1");
    line(top, "bandwidth_gb_s", "100");
    line(top, "host_link_gb_s", "10");
    line(top, "peer_link_gb_s", "10");
    line(top, "link_delay_us", "0");
    line(top, "launch_us", "0");
    line(top, "kernel_us", "0");
    line(thermal, "idle_w", "10");
    line(thermal, "peak_w", "100");
    line(thermal, "ambient_c", "25");
    line(thermal, "warmth_c_per_w", "0.1");
    line(thermal, "settling_s", "10");
    line(thermal, "throttle_c", "90");
    line(thermal, "throttle_clock", "0.5");
    const bool warm = lines.find("throttle_") != std::string::npos ||
                      lines.find("settling_") != std::string::npos;
    text = "name = \"test\"\nsource = \"made up\"\n" + top + (warm ? "" : lines + "\n");
    return text + "[peak_tflops]\nf32 = 1\n[thermal]\n" + thermal + (warm ? lines + "\n" : "");
  }

 private:
  std::optional<tests::TemporaryFolder> folder_;  // made late: a death test would leave it
};

}  // namespace brim
