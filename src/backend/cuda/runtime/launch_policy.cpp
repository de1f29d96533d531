// Kernels queue themselves: their functions launch on the context's stream.
#include "backend/launch_policy.h"

#include <algorithm>
#include <cmath>

#include "backend/cuda/compile/formula_kernels.h"
#include "backend/cuda/runtime/runtime.h"
#include "backend/cuda/runtime/stream_check.h"
#include "backend/queued_op.h"
#include "diag/span.h"

namespace brim::cuda {
namespace {

std::vector<backend::Touch> touches_of(const backend::Call& call) {
  std::vector<backend::Touch> touches;
  call.for_each_tensor([&](const Tensor& t, bool writes) {
    if (t.defined()) touches.push_back({t.storage()->data(), t.storage()->bytes(), writes});
  });
  return touches;
}

void launch(const Context& context, const char* name, DType, const backend::Call& call) {
  const diag::Span span(name, diag::Cause::dispatch);
  const backend::QueuedOp op(name);
  if (checker()) [[unlikely]]
    check_work(context.stream, name, touches_of(call));
  call.run(context);
}

/// By the number of multiprocessors: those of all generations are alike enough for it.
double estimate(Device device, DType dtype, const backend::Call& call) {
  constexpr double kOperations = 250e9, kTensorCores = 2e12, kBytes = 15e9;  // of one, a second
  constexpr double kLaunch = 2e-6;
  constexpr double kLink = 24e9, kLinkDelay = 10e-6;  // of PCIe 4.0, each way
  if (call.work() == extend::Work::to_host || call.work() == extend::Work::to_device)
    return kLinkDelay + std::abs(call.operations()) / kLink;
  const double peak = size_of(dtype) == 2 ? kTensorCores : kOperations;
  return std::max(kLaunch,
                  std::max(std::abs(call.operations()) / peak, backend::bytes_of(call) / kBytes) /
                      std::max(1, multiprocessors(device.index)));
}

const bool registered =
    backend::register_launch_policy(DeviceKind::cuda, {.launch = &launch,
                                                       .kernels = DeviceKind::cuda,
                                                       .keeps_addresses = true,
                                                       .trades_time_for_memory = false,
                                                       .estimate = &estimate,
                                                       .run_text = &run_text});

}  // namespace
}  // namespace brim::cuda
