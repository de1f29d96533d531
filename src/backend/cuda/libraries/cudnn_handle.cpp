// See cudnn_handle.h.
#if BRIM_HAVE_CUDNN
#include "backend/cuda/libraries/cudnn_handle.h"
#include "core/environment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace brim::cuda::dnn {
namespace {

// Of a result, as many pieces of so many elements are compared, from its begin to its end.
constexpr int64_t kPieces = 64, kPiece = 64;

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

/// A sample of a result's elements; waits for the stream.
std::vector<double> read(const Output& output, Stream stream) {
  const auto size = static_cast<int64_t>(size_of(output.dtype));
  const bool is_whole = output.count <= kPieces * kPiece;
  const int64_t pieces = is_whole ? 1 : kPieces, piece = is_whole ? output.count : kPiece;
  std::vector<char> bytes(static_cast<size_t>(pieces * piece * size));
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t at = is_whole ? 0 : i * (output.count - piece) / (pieces - 1);
    BRIM_CUDA(cudaMemcpyAsync(
        bytes.data() + i * piece * size, static_cast<const char*>(output.data) + at * size,
        static_cast<size_t>(piece * size), cudaMemcpyDeviceToHost, native(stream)));
  }
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

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double x : values)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

/// Whether two finite elements differ: else two ways may agree by accident.
bool shows_something(const std::vector<double>& values) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const double x : values)
    if (std::isfinite(x)) {
      least = std::min(least, x);
      most = std::max(most, x);
    }
  return least < most;
}

/// Whether no element differs by more than rounding does, measured by `scale`; NaN is where NaN
/// was.
bool agree(DType dtype, double scale, const std::vector<double>& a, const std::vector<double>& b) {
  const double tolerance = dtype == DType::f64 ? 1e-9 : dtype == DType::f32 ? 1e-4 : 2e-2;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::isfinite(a[i]) || std::isfinite(b[i])) {
      if (!(std::abs(a[i] - b[i]) <= tolerance * scale)) return false;
    } else if (std::isnan(a[i]) != std::isnan(b[i])) {
      return false;
    }
  return true;
}

/// The results of brim's own kernel, to compare others with.
class Expected {
 public:
  Expected(std::span<const Output> outputs, const Work& own, Stream stream)
      : outputs_(outputs), stream_(stream) {
    own({stream});
    for (const Output& output : outputs) values_.push_back(read(output, stream));
    for (const auto& values : values_) scales_.push_back(largest(values));
    for (size_t i = 0; i + 1 < outputs.size(); ++i)
      if (outputs[i].like_next) scales_[i] = scales_[i + 1] = std::max(scales_[i], scales_[i + 1]);
  }
  /// Whether the library's results are seen to be these.
  bool are_of(const Candidate& library) const {
    if (!shows_something(values_.back()) || !can_queue(library, {stream_})) return false;
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!agree(outputs_[i].dtype, scales_[i], values_[i], read(outputs_[i], stream_)))
        return false;
    return true;
  }

 private:
  std::span<const Output> outputs_;
  Stream stream_;
  std::vector<std::vector<double>> values_;
  std::vector<double> scales_;
};

/// Whether time is not to count, so that tests meet the library: BRIM_CUDA_PREFER_CUDNN=1.
bool is_preferred() { return environment_switch("BRIM_CUDA_PREFER_CUDNN"); }

}  // namespace

Handle::Handle(int device)
    : choices(choices_of(device, fmt::format("cuDNN {}", library().version()))) {
  const DeviceGuard guard(device);
  const cudnnStatus_t created = library().create(&handle_);
  if (created == CUDNN_STATUS_SUCCESS) return;
  handle_ = nullptr;
  raise_if_lost("cudnnCreate");
  library().warn_cannot_begin("convolutions",
                              std::string("cudnnCreate: ") + library().error_string(created));
}

cudnnHandle_t Handle::on(Stream stream) {
  const cudaStream_t wanted = native(stream);
  if (stream_ != wanted) {
    check(library().set_stream(handle_, wanted), "cudnnSetStream");
    stream_ = wanted;
  }
  return handle_;
}

Handle* handle_of(int device, bool may_begin) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Handle>>;
  const std::lock_guard lock(mutex);
  auto& handle = (*all)[device];
  if (!handle && may_begin) handle = std::make_unique<Handle>(device);
  return handle && handle->has_begun() ? handle.get() : nullptr;
}

int best_of_library(ChoiceFile& choices, const std::string& problem,
                    std::span<const Output> outputs, std::span<const Candidate> library,
                    const Work& own, Stream stream) {
  if (library.empty()) return -1;
  const bool is_measured = choices.are_kept() && !choices.find(problem);
  std::optional<Expected> expected;
  if (is_preferred() || is_measured) expected.emplace(outputs, own, stream);
  // The own kernel is first: where nothing can be kept, it computes.
  std::vector<Candidate> all{{"own", [&](const Context& at) {
                                own(at);
                                return true;
                              }}};
  std::vector<int> numbers{-1};
  for (size_t i = 0; i < library.size(); ++i) {
    if (expected && !expected->are_of(library[i])) continue;
    if (is_preferred()) return static_cast<int>(i);
    all.push_back(library[i]);
    numbers.push_back(static_cast<int>(i));
  }
  if (is_preferred()) return -1;
  if (all.size() == 1) {
    choices.keep(problem, "own");
    return -1;
  }
  const int best = choose(choices, problem, all, stream);
  return best < 0 ? -1 : numbers[static_cast<size_t>(best)];
}

}  // namespace brim::cuda::dnn

#endif
