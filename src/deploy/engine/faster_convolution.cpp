// Both kernels over the same data in turns, with the network's other weights read in between.
#include "deploy/engine/faster_convolution.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/check.h"
#include "rt/kernels/convolution.h"

namespace brim::deploy {
namespace {

/// Both kernels over the same data, in turns.
class Comparison {
 public:
  Comparison(const rt::ConvolutionAttributes& a, const ConvolutionSizes& s, int threads,
             size_t others)
      : others_(others / sizeof(float), 1.0F),
        isa_(rt::best_isa()),
        x_(count(s.n * s.h * s.w * s.c), 0.5F),
        weights_(count(36 * rt::panels_of(s.o) * rt::kPanel * s.c), 0.01F),
        bias_(count(rt::panels_of(s.o) * rt::kPanel), 0.0F),
        y_(count(s.n * s.oh * s.ow * s.o)) {
    const int code = threads_.start(threads > 0 ? threads : rt::core_count(), rt::Memory());
    BRIM_CHECK(code == BRIM_RT_OK, Error, "[engine] the threads to measure with cannot be started");
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
    constexpr double kEnough = 0.1;  // seconds, in which large ones are known well
    double spent = 0;
    for (int i = 0; i < kRounds && (i < 2 || spent < kEnough); ++i) {
      const auto timed = [&](auto* kernel) {
        read_others();
        return seconds([&] { kernel(isa_, conv_, threads_, scratch_.data()); }, spent);
      };
      direct = std::min(direct, timed(&rt::convolve));
      winograd = std::min(winograd, timed(&rt::convolve_winograd));
    }
    constexpr double kGain = 1.1;
    return winograd * kGain < direct;
  }

 private:
  /// So that weights come from where they come from in a run.
  void read_others() {
    constexpr size_t kLine = 64 / sizeof(float);
    float sum = 0;
    for (size_t i = 0; i < others_.size(); i += kLine) sum += others_[i];
    volatile float kept = sum;
    (void)kept;
  }
  static size_t count(int64_t n) { return static_cast<size_t>(n); }
  template <class F>
  static double seconds(const F& run, double& spent) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    run();
    const double taken = std::chrono::duration<double>(Clock::now() - start).count();
    spent += taken;
    return taken;
  }

  std::vector<float> others_;
  rt::Isa isa_;
  rt::Threads threads_;
  rt::Convolution conv_;
  std::vector<float> x_, weights_, bias_, y_, scratch_;
};

}  // namespace

bool winograd_is_faster(const rt::ConvolutionAttributes& a, const ConvolutionSizes& s, int threads,
                        size_t others) {
  constexpr int64_t kTile = 4, kPoints = 36;
  constexpr int64_t kMaxWeights = int64_t{1} << 20;  // numbers
  constexpr size_t kBeyondCaches = size_t{64} << 20;
  others = std::min(others, kBeyondCaches);
  const bool can = a.kernel_h == 3 && a.kernel_w == 3 && a.stride_h == 1 && a.stride_w == 1 &&
                   a.dilation_h == 1 && a.dilation_w == 1 && a.groups == 1 &&
                   s.c % rt::kPanel == 0 && s.o % rt::kPanel == 0 && s.oh >= kTile &&
                   s.ow >= kTile && kPoints * s.c * s.o <= kMaxWeights;
  if (!can) return false;
  // Networks repeat their layers, and exports of a process their networks.
  static std::mutex mutex;
  static auto& known =
      *new std::map<std::tuple<ConvolutionSizes, int64_t, int64_t, int, size_t>, bool>;
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = known.try_emplace({s, a.top, a.left, threads, others});
  if (is_new) found->second = Comparison(a, s, threads, others).winograd_is_faster();
  return found->second;
}

}  // namespace brim::deploy
