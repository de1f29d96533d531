// Chains of elementwise kernels on the CPU: each thread takes runs of elements that fit in L1 and
// applies all links to one run before it goes on to the next.
#include <cstring>

#include "backend/cpu/elementwise/loop.h"
#include "backend/fused/elementwise_chain.h"

namespace brim::cpu {
namespace {

using backend::Chain;
using backend::ChainLink;

constexpr int64_t kRunBytes = 4096;  // of a register

/// Fills a register with a single element.
void spread(const char* from, char* to, int64_t n, size_t bytes) {
  if (bytes == sizeof(float)) {
    float value;
    std::memcpy(&value, from, bytes);
    std::fill_n(reinterpret_cast<float*>(to), n, value);
  } else {
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * static_cast<int64_t>(bytes), from, bytes);
  }
}

void chain(const Context&, std::span<const Tensor> in, std::span<Tensor> out, const Chain& chain) {
  const DType dtype = out[0].dtype();
  const int64_t n = out[0].numel(), bytes = static_cast<int64_t>(size_of(dtype));
  const int64_t run = kRunBytes / bytes;
  const size_t inner = in.size() + out.size();  // the first of the registers inside
  parallel_for(n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    alignas(64) char inside[Chain::kMaxInner][kRunBytes];
    alignas(64) char single[Chain::kMaxRegisters][kRunBytes];
    std::array<char*, Chain::kMaxRegisters> base{};
    std::array<bool, Chain::kMaxRegisters> moves{};
    for (size_t i = 0; i < in.size(); ++i) {
      moves[i] = in[i].numel() == n;
      base[i] = moves[i] ? static_cast<char*>(in[i].raw()) : single[i];
      if (!moves[i])
        spread(static_cast<const char*>(in[i].raw()), single[i], std::min(run, end - begin),
               static_cast<size_t>(bytes));
    }
    for (size_t i = 0; i < out.size(); ++i) {
      moves[in.size() + i] = true;
      base[in.size() + i] = static_cast<char*>(out[i].raw());
    }
    for (int i = 0; i < chain.inner; ++i) base[inner + static_cast<size_t>(i)] = inside[i];
    for (int64_t at = begin; at < end; at += run) {
      const int64_t count = std::min(run, end - at);
      const auto place = [&](int r) {
        const auto k = static_cast<size_t>(r);
        return base[k] + (moves[k] ? at * bytes : 0);
      };
      for (const ChainLink& link : chain.links) {
        char* const operands[] = {place(link.y), place(link.a),
                                  link.b < 0 ? nullptr : place(link.b)};
        link.slot->loops[static_cast<size_t>(dtype)](operands, count, link.params);
      }
    }
  });
}

const bool registered = [] {
  for (int d = 0; is_computed(static_cast<DType>(d)); ++d)
    backend::register_kernel("elementwise_chain", DeviceKind::cpu, static_cast<DType>(d), &chain);
  return true;
}();

}  // namespace
}  // namespace brim::cpu
