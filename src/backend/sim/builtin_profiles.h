// Profiles of real devices, as a user would write them. Rates are the vendor's peaks without
// sparsity; links count one direction (half of what data sheets call bandwidth).
#pragma once

#include <string_view>

namespace brim::sim {

struct BuiltinProfile {
  std::string_view name;
  std::string_view toml;
};

// launch_us and kernel_us are what CUDA launches commonly cost on servers, and [thermal] is a
// plausible cooling, not a vendor's number: warmth is chosen so that full power settles a little
// below throttle_c.
inline constexpr BuiltinProfile kBuiltinProfiles[] = {
    {"t4", R"toml(
name = "NVIDIA T4"
source = "NVIDIA T4 Tensor Core GPU data sheet (2019): 8.1 TFLOP/s f32, 65 f16, 130 INT8 TOP/s, 16 GB at 320 GB/s, PCIe 3.0 x16, 70 W; f64 is 1/32 of f32 (Turing whitepaper)"
memory_gb = 16
bandwidth_gb_s = 320
host_link_gb_s = 16
peer_link_gb_s = 16
link_delay_us = 8
launch_us = 5
kernel_us = 3

[peak_tflops]
f32 = 8.1
f64 = 0.253
f16 = 65
bf16 = 8.1
i8 = 130

[thermal]
idle_w = 10
peak_w = 70
ambient_c = 30
warmth_c_per_w = 0.75
settling_s = 60
throttle_c = 85
throttle_clock = 0.6
clock_mhz = 1590
)toml"},
    {"v100", R"toml(
name = "NVIDIA V100 SXM2 32GB"
source = "NVIDIA V100 Tensor Core GPU data sheet (2020): 15.7 TFLOP/s f32, 7.8 f64, 125 f16 (tensor cores), 32 GB at 900 GB/s, NVLink 300 GB/s, PCIe 3.0 32 GB/s, 300 W; no tensor cores for bf16"
memory_gb = 32
bandwidth_gb_s = 900
host_link_gb_s = 16
peer_link_gb_s = 150
link_delay_us = 8
launch_us = 5
kernel_us = 3

[peak_tflops]
f32 = 15.7
f64 = 7.8
f16 = 125
bf16 = 15.7
i8 = 62

[thermal]
idle_w = 40
peak_w = 300
ambient_c = 30
warmth_c_per_w = 0.17
settling_s = 60
throttle_c = 85
throttle_clock = 0.6
clock_mhz = 1530
)toml"},
    {"l4", R"toml(
name = "NVIDIA L4"
source = "NVIDIA L4 Tensor Core GPU data sheet (2023): 30.3 TFLOP/s f32, 121 f16 and bf16 (242 with sparsity), 242 INT8 TOP/s (485), 24 GB at 300 GB/s, PCIe 4.0 x16 64 GB/s, 72 W; f64 is 1/64 of f32 (Ada)"
memory_gb = 24
bandwidth_gb_s = 300
host_link_gb_s = 32
peer_link_gb_s = 32
link_delay_us = 8
launch_us = 4
kernel_us = 2.5

[peak_tflops]
f32 = 30.3
f64 = 0.473
f16 = 121
bf16 = 121
i8 = 242

[thermal]
idle_w = 12
peak_w = 72
ambient_c = 30
warmth_c_per_w = 0.74
settling_s = 60
throttle_c = 85
throttle_clock = 0.6
clock_mhz = 2040
)toml"},
    {"a100", R"toml(
name = "NVIDIA A100 SXM 80GB"
source = "NVIDIA A100 Tensor Core GPU data sheet (2021): 19.5 TFLOP/s f32, 9.7 f64, 312 f16 and bf16, 624 INT8 TOP/s, 80 GB at 2039 GB/s, NVLink 600 GB/s, PCIe 4.0 64 GB/s, 400 W"
memory_gb = 80
bandwidth_gb_s = 2039
host_link_gb_s = 32
peer_link_gb_s = 300
link_delay_us = 8
launch_us = 4
kernel_us = 2.5

[peak_tflops]
f32 = 19.5
f64 = 9.7
f16 = 312
bf16 = 312
i8 = 624

[thermal]
idle_w = 50
peak_w = 400
ambient_c = 30
warmth_c_per_w = 0.13
settling_s = 60
throttle_c = 85
throttle_clock = 0.6
clock_mhz = 1410
)toml"},
    {"h100", R"toml(
name = "NVIDIA H100 SXM"
source = "NVIDIA H100 Tensor Core GPU data sheet (2023): 67 TFLOP/s f32, 34 f64, 989 f16 and bf16 (1979 with sparsity), 1979 INT8 TOP/s, 80 GB at 3.35 TB/s, NVLink 900 GB/s, PCIe 5.0 128 GB/s, 700 W"
memory_gb = 80
bandwidth_gb_s = 3350
host_link_gb_s = 64
peer_link_gb_s = 450
link_delay_us = 8
launch_us = 4
kernel_us = 2

[peak_tflops]
f32 = 67
f64 = 34
f16 = 989
bf16 = 989
i8 = 1979

[thermal]
idle_w = 70
peak_w = 700
ambient_c = 30
warmth_c_per_w = 0.07
settling_s = 60
throttle_c = 85
throttle_clock = 0.6
clock_mhz = 1980
)toml"},
    {"h200", R"toml(
name = "NVIDIA H200 SXM"
source = "NVIDIA H200 Tensor Core GPU data sheet (2024): 67 TFLOP/s f32, 34 f64, 989 f16 and bf16 (1979 with sparsity), 1979 INT8 TOP/s, 141 GB at 4.8 TB/s, NVLink 900 GB/s, PCIe 5.0 128 GB/s, 700 W"
memory_gb = 141
bandwidth_gb_s = 4800
host_link_gb_s = 64
peer_link_gb_s = 450
link_delay_us = 8
launch_us = 4
kernel_us = 2

[peak_tflops]
f32 = 67
f64 = 34
f16 = 989
bf16 = 989
i8 = 1979

[thermal]
idle_w = 75
peak_w = 700
ambient_c = 30
warmth_c_per_w = 0.07
settling_s = 60
throttle_c = 85
throttle_clock = 0.6
clock_mhz = 1980
)toml"},
};

}  // namespace brim::sim
