// What launches go by of a card, asked of CUDA once.
#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>
#include <string>

#include <cuda_runtime.h>
#include <fmt/core.h>
#include "backend/cuda/runtime/runtime.h"
#include "core/environment.h"

namespace brim::cuda {
namespace {

bool wants_dependent_launches() {
  static const bool wanted = environment_number("BRIM_CUDA_DEPENDENT_LAUNCH", 0) != 0;
  return wanted;
}

struct Card {
  std::once_flag asked;
  int multiprocessors = 0, compute_capability = 0;
  bool launches_dependently = false;
};

const Card& card(int device) {
  static auto& all = *new std::array<Card, 64>;
  Card& c = all[static_cast<size_t>(device) % all.size()];
  std::call_once(c.asked, [&] {
    cudaDeviceProp p{};
    BRIM_CUDA(cudaGetDeviceProperties(&p, device));
    c.multiprocessors = p.multiProcessorCount;
    c.compute_capability = 10 * p.major + p.minor;
    if (!wants_dependent_launches() || p.major < 9) return;
    const DeviceGuard guard(device);
    c.launches_dependently = kernels_wait();
  });
  return c;
}

}  // namespace

int multiprocessors(int device) { return card(device).multiprocessors; }
int compute_capability(int device) { return card(device).compute_capability; }

std::string uuid_of(int device) {
  cudaDeviceProp p{};
  if (cudaGetDeviceProperties(&p, device) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};
  }
  if (std::ranges::count(p.uuid.bytes, 0) == std::ssize(p.uuid.bytes)) return {};  // it has none
  std::string text = "GPU";
  for (size_t i = 0; i < sizeof p.uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(p.uuid.bytes[i]));
  }
  return text;
}

bool launches_dependently(int device) {
  return wants_dependent_launches() && card(device).launches_dependently;
}

}  // namespace brim::cuda
