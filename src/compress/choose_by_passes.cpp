#include "compress/choose_by_passes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace brim::compress {
namespace {

/// Which layers compute in integers.
using Chosen = std::vector<bool>;

class PassMeter {
 public:
  PassMeter(nn::Module& network, const std::vector<Watched>& layers,
            const std::function<std::vector<double>()>& seconds)
      : network_(network), layers_(layers), seconds_(seconds) {
    f32_ = measured(Chosen(layers.size(), false));
  }

  /// The mean of how many times as long as f32 a pass takes, on a logarithmic scale; infinite where
  /// one takes longer than f32.
  double score(const Chosen& chosen) const {
    const std::vector<double> times = measured(chosen);
    double sum = 0;
    for (size_t i = 0; i < times.size(); ++i) {
      if (times[i] > f32_[i]) return std::numeric_limits<double>::infinity();
      sum += std::log(times[i] / f32_[i]);
    }
    return sum / static_cast<double>(times.size());
  }

 private:
  std::vector<double> measured(const Chosen& chosen) const {
    use_dense(network_);
    for (size_t i = 0; i < layers_.size(); ++i)
      if (chosen[i]) use_int8(layers_[i].layer, layers_[i].form());
    const std::vector<double> times = seconds_();
    use_dense(network_);
    const auto is_time = [](double s) { return std::isfinite(s) && s > 0; };
    BRIM_CHECK(!times.empty() && std::ranges::all_of(times, is_time) &&
                   (f32_.empty() || times.size() == f32_.size()),
               ValueError,
               "[quantize] pass_seconds gave no times, as many each time, above 0 seconds");
    return times;
  }

  nn::Module& network_;
  const std::vector<Watched>& layers_;
  const std::function<std::vector<double>()>& seconds_;
  std::vector<double> f32_;
};

/// Keeps the best one that was seen.
struct Best {
  const PassMeter& meter;
  Chosen chosen;
  double score = 0;  // of f32

  /// Whether it is clearly better.
  bool try_out(const Chosen& other) {
    constexpr double kClearly = 0.01;
    if (other == chosen) return false;
    // Again, as the first measurement of what is better may be a lucky one.
    double of_other = meter.score(other);
    if (of_other >= score - kClearly) return false;
    of_other = std::max(of_other, meter.score(other));
    if (of_other >= score - kClearly) return false;
    chosen = other;
    score = of_other;
    return true;
  }
};

}  // namespace

void choose_by_passes(nn::Module& network, std::vector<Watched>& layers,
                      const std::function<std::vector<double>()>& seconds) {
  constexpr size_t kGroups = 4;
  const PassMeter meter(network, layers, seconds);
  Best best{meter, Chosen(layers.size(), false)};
  Chosen all(layers.size()), faster(layers.size());
  std::vector<size_t> open;
  for (size_t i = 0; i < layers.size(); ++i) {
    all[i] = layers[i].is_open();
    faster[i] = all[i] && layers[i].slower.empty();
    if (all[i]) open.push_back(i);
  }
  best.try_out(faster);
  best.try_out(all);
  const size_t groups = std::min(kGroups, open.size());
  for (size_t g = 0; g < groups; ++g)
    for (const bool in_integers : {true, false}) {
      Chosen other = best.chosen;
      for (size_t i = open.size() * g / groups; i < open.size() * (g + 1) / groups; ++i)
        other[open[i]] = in_integers;
      if (best.try_out(other)) break;
    }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].is_open() || best.chosen[i]) continue;
    layers[i].give_up(layers[i].slower.empty()
                          ? "the network as a whole is not faster with it in integers"
                          : layers[i].slower);
  }
}

}  // namespace brim::compress
