// See cudnn_handle.h.
#if __has_include(<cudnn.h>)
#include "backend/cuda/libraries/cudnn_handle.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

namespace brim::cuda::dnn {
namespace {

constexpr int64_t kCompared = 4096;  // elements of a result

template <class T>
std::vector<double> numbers(const std::vector<char>& bytes) {
  const auto* const from = reinterpret_cast<const T*>(bytes.data());
  std::vector<double> all(bytes.size() / sizeof(T));
  for (size_t i = 0; i < all.size(); ++i)
    if constexpr (std::is_same_v<T, double>)
      all[i] = from[i];
    else
      all[i] = static_cast<double>(static_cast<float>(from[i]));
  return all;
}

/// The first elements of a result; waits for the stream.
std::vector<double> read(const Output& output, Stream stream) {
  std::vector<char> bytes(static_cast<size_t>(std::min(output.count, kCompared)) *
                          size_of(output.dtype));
  BRIM_CUDA(cudaMemcpyAsync(bytes.data(), output.data, bytes.size(), cudaMemcpyDeviceToHost,
                            native(stream)));
  BRIM_CUDA(cudaStreamSynchronize(native(stream)));
  switch (output.dtype) {
    case DType::f64:
      return numbers<double>(bytes);
    case DType::f16:
      return numbers<Half>(bytes);
    case DType::bf16:
      return numbers<BFloat16>(bytes);
    default:
      return numbers<float>(bytes);
  }
}

/// Whether no element differs by more than rounding does, measured by the largest; NaN is where
/// NaN was.
bool agree(DType dtype, const std::vector<double>& a, const std::vector<double>& b) {
  const double tolerance = dtype == DType::f64 ? 1e-9 : dtype == DType::f32 ? 1e-4 : 2e-2;
  double most = 0;
  for (const double x : a)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  for (size_t i = 0; i < a.size(); ++i)
    if (std::isfinite(a[i]) || std::isfinite(b[i])) {
      if (!(std::abs(a[i] - b[i]) <= tolerance * most)) return false;
    } else if (std::isnan(a[i]) != std::isnan(b[i])) {
      return false;
    }
  return true;
}

}  // namespace

Handle::Handle(int device)
    : choices(choices_of(device, fmt::format("cuDNN {}", library().version()))) {
  const DeviceGuard guard(device);
  check(library().create(&handle), "cudnnCreate");
}

void Handle::use(Stream wanted) {
  if (stream == native(wanted)) return;
  check(library().set_stream(handle, native(wanted)), "cudnnSetStream");
  stream = native(wanted);
}

Handle* handle_of(int device, bool may_begin) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Handle>>;
  const std::lock_guard lock(mutex);
  auto& handle = (*all)[device];
  if (!handle && may_begin) handle = std::make_unique<Handle>(device);
  return handle.get();
}

std::optional<bool> library_is_better(ChoiceFile& choices, const std::string& problem,
                                      std::span<const Output> outputs, const Candidate& library,
                                      const Work& own, Stream stream) {
  // The own kernel is first: where nothing can be kept, it computes.
  const std::vector<Candidate> both{{"own",
                                     [&](const Context& at) {
                                       own(at);
                                       return true;
                                     }},
                                    library};
  if (choices.are_kept() && !choices.find(problem)) {
    std::vector<std::vector<double>> expected;
    own({stream});
    for (const Output& output : outputs) expected.push_back(read(output, stream));
    if (std::ranges::adjacent_find(expected.back(), std::not_equal_to()) == expected.back().end())
      return {};
    if (can_queue(library, {stream}))
      for (size_t i = 0; i < outputs.size(); ++i)
        if (!agree(outputs[i].dtype, expected[i], read(outputs[i], stream))) {
          choices.keep(problem, "own");
          return false;
        }
  }
  return choose(choices, problem, both, stream) == 1;
}

}  // namespace brim::cuda::dnn

#endif
