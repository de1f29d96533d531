#include "command/device_roof.h"

#include <brim/autograd/autograd.h>
#include <brim/core/error.h>
#include <brim/core/tf32.h>
#include <brim/core/threads.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/version.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "backend/cpu/runtime/isa.h"
#include "core/cache_file.h"
#include "core/clock.h"
#include "core/runtime.h"

namespace brim::command {
namespace {

constexpr double kEnough = 1e-3;  // seconds: a product that takes as long hides its launch

/// The shortest time of some runs, the first one left out.
template <class F>
double shortest(Device device, const F& run) {
  constexpr int kRuns = 5;
  double best = 0;
  for (int i = 0; i <= kRuns; ++i) {
    synchronize(device);
    const double begin = steady_seconds();
    run();
    synchronize(device);
    const double took = steady_seconds() - begin;
    if (i > 0) best = i == 1 ? took : std::min(best, took);
  }
  return best;
}

double product_rate(Device device, DType dtype) {
  double rate = 0;
  for (int64_t n = 512; n <= 8192; n *= 2) {
    const Tensor a = ones({n, n}, {.dtype = dtype, .device = device}), b = ones_like(a);
    const double took = shortest(device, [&] { (void)matmul(a, b); });
    const auto size = static_cast<double>(n);
    rate = std::max(rate, 2 * size * size * size / took);
    if (took > kEnough) break;
  }
  return rate;
}

/// Of a += b, `times` in a row.
double sum_rate(Device device, int64_t elements, int times) {
  Tensor a = zeros({elements}, {.dtype = f32, .device = device});
  const Tensor b = zeros_like(a);
  const double took = shortest(device, [&] {
    for (int i = 0; i < times; ++i) a.add_(b);
  });
  return 3.0 * static_cast<double>(elements * times) * sizeof(float) / took;
}

/// In brim's cache, of this machine, version and number of threads.
class RoofFile {
 public:
  RoofFile(Device device, const std::string& precision)
      : problem_(fmt::format("{} {}", name(device.kind), precision)),
        file_(cache_path("device_roof.json"),
              fmt::format("{}; brim {}; {} threads; {}",
                          runtime(device.kind).description(device.index), BRIM_VERSION,
                          num_threads(), cpu::isa())) {}

  /// Not known where there is none, or what no brim has written.
  DeviceRoof find() {
    DeviceRoof roof;
    std::istringstream numbers(file_.find(problem_).value_or(""));
    numbers >> roof.operations_per_s >> roof.bytes_per_s >> roof.cache_bytes_per_s >>
        roof.cache_bytes;
    return numbers && roof.is_known() && roof.cache_bytes_per_s >= 0 ? roof : DeviceRoof();
  }
  void keep(const DeviceRoof& roof) {
    file_.keep(problem_, fmt::format("{:.6g} {:.6g} {:.6g} {:.6g}", roof.operations_per_s,
                                     roof.bytes_per_s, roof.cache_bytes_per_s, roof.cache_bytes));
  }

 private:
  const std::string problem_;
  ChoiceFile file_;
};

}  // namespace

DeviceRoof measure_roof(Device device, const std::string& precision) {
  constexpr int64_t kLarge = int64_t{1} << 24, kSmall = int64_t{1} << 15;  // elements
  const NoGrad guard;
  const Tf32 scope(precision == "tf32");
  const DType dtype = precision == "fp16" ? f16 : precision == "bf16" ? bf16 : f32;
  DeviceRoof roof;
  try {
    roof.operations_per_s = product_rate(device, dtype);
    roof.bytes_per_s = sum_rate(device, kLarge, 1);
    if (device.is_cpu()) {
      roof.cache_bytes_per_s = std::max(sum_rate(device, kSmall, 100), roof.bytes_per_s);
      const auto cache = static_cast<double>(std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), 1L << 19));
      roof.cache_bytes = cache * num_threads();
    }
  } catch (const Error&) {  // no memory for it, or a device that has failed
    return {};
  }
  return roof;
}

DeviceRoof kept_roof(Device device, const std::string& precision) {
  if (device.kind == DeviceKind::sim) return {};  // of any profile
  return RoofFile(device, precision).find();
}

DeviceRoof device_roof(Device device, const std::string& precision) {
  if (device.kind == DeviceKind::sim) return measure_roof(device, precision);
  RoofFile file(device, precision);
  if (const DeviceRoof kept = file.find(); kept.is_known()) return kept;
  const DeviceRoof roof = measure_roof(device, precision);
  if (roof.is_known()) file.keep(roof);
  return roof;
}

nlohmann::ordered_json roof_json(const DeviceRoof& roof) {
  if (!roof.is_known()) return nullptr;
  return {{"operations_per_s", roof.operations_per_s},
          {"bytes_per_s", roof.bytes_per_s},
          {"cache_bytes_per_s", roof.cache_bytes_per_s},
          {"cache_bytes", roof.cache_bytes}};
}

}  // namespace brim::command
