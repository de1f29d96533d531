#include "deploy/engine/faster_convolution.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "rt/kernels/convolution.h"

namespace brim::deploy {
namespace {

/// Both kernels over the same data, in turns.
class Comparison {
 public:
  Comparison(const rt::ConvolutionAttributes& a, const ConvolutionSizes& s, int threads)
      : isa_(rt::best_isa()),
        x_(count(s.n * s.h * s.w * s.c), 0.5F),
        weights_(count(36 * rt::panels_of(s.o) * rt::kPanel * s.c), 0.01F),
        bias_(count(rt::panels_of(s.o) * rt::kPanel), 0.0F),
        y_(count(s.n * s.oh * s.ow * s.o)) {
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    threads_.start(threads > 0 ? threads : cores, rt::Memory());
    conv_ = {.a = a,
             .n = s.n,
             .h = s.h,
             .w = s.w,
             .c = s.c,
             .oh = s.oh,
             .ow = s.ow,
             .o = s.o,
             .x = x_.data(),
             .weights = weights_.data(),
             .bias = bias_.data(),
             .residual = nullptr,
             .y = y_.data()};
    scratch_.resize(std::max(rt::convolution_scratch(conv_, threads_.count()),
                             rt::winograd_scratch(conv_, threads_.count())) /
                    sizeof(float));
  }

  bool winograd_is_faster() {
    double direct = std::numeric_limits<double>::infinity(), winograd = direct;
    constexpr int kRounds = 7;
    for (int i = 0; i < kRounds; ++i) {
      direct =
          std::min(direct, seconds([&] { rt::convolve(isa_, conv_, threads_, scratch_.data()); }));
      winograd =
          std::min(winograd,
                   seconds([&] { rt::convolve_winograd(isa_, conv_, threads_, scratch_.data()); }));
    }
    constexpr double kGain = 1.1;
    return winograd * kGain < direct;
  }

 private:
  static size_t count(int64_t n) { return static_cast<size_t>(n); }
  template <class F>
  static double seconds(const F& run) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    run();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  rt::Isa isa_;
  rt::Threads threads_;
  rt::Convolution conv_;
  std::vector<float> x_, weights_, bias_, y_, scratch_;
};

}  // namespace

bool winograd_is_faster(const rt::ConvolutionAttributes& a, const ConvolutionSizes& s,
                        int threads) {
  constexpr int64_t kTile = 4;
  const bool can = a.kernel_h == 3 && a.kernel_w == 3 && a.stride_h == 1 && a.stride_w == 1 &&
                   a.dilation_h == 1 && a.dilation_w == 1 && a.groups == 1 &&
                   s.c % rt::kPanel == 0 && s.o % rt::kPanel == 0 && s.oh >= kTile && s.ow >= kTile;
  if (!can) return false;
  // Networks repeat their layers, and exports of a process their networks.
  static std::mutex mutex;
  static auto& known = *new std::map<std::tuple<ConvolutionSizes, int64_t, int64_t, int>, bool>;
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = known.try_emplace({s, a.top, a.left, threads});
  if (is_new) found->second = Comparison(a, s, threads).winograd_is_faster();
  return found->second;
}

}  // namespace brim::deploy
