#include "train/most_wrong.h"

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/softmax.h>
#include <brim/ops/sort.h>
#include <brim/ops/unary.h>

#include <algorithm>
#include <tuple>

namespace brim::train {

void MostWrong::add(const Tensor& output, const Tensor& y, std::span<const int64_t> samples) {
  const bool fits = y.defined() && output.rank() == 2 && y.rank() == 1 && y.dtype() == i64 &&
                    y.size(0) == output.size(0) && output.size(1) > 1;
  if (most_ == 0 || !fits) return;
  const auto first = static_cast<double>(samples_.size());
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  const Tensor logs = log_softmax(output.to(f32), 1);
  const Tensor said = argmax(logs, 1);
  const Tensor own = neg(gather(logs, 1, y.unsqueeze(1)).squeeze(1));
  // What was right, and what is no number, is of no interest.
  const Tensor losses = masked_fill(masked_fill(own, eq(said, y), -1), isnan(own), -1);
  const Tensor places = arange(first, first + static_cast<double>(samples.size()), 1.0,
                               {.dtype = f64, .device = output.device()});
  const Tensor probability = exp(gather(logs, 1, said.unsqueeze(1)).squeeze(1));
  const Tensor rows = stack({places, y.to(f64), said.to(f64), probability.to(f64)}, 1);
  const Tensor all = losses_.defined() ? cat({losses_, losses}, 0) : losses;
  const Tensor all_rows = kept_.defined() ? cat({kept_, rows}, 0) : rows;
  const auto best = topk(all, std::min(most_, all.size(0)), 0);
  losses_ = best.values;
  kept_ = index_select(all_rows, 0, best.indices);
}

std::vector<Evaluation::Wrong> MostWrong::read() const {
  std::vector<Evaluation::Wrong> wrong;
  if (!losses_.defined()) return wrong;
  const std::vector<float> losses = losses_.to_vector<float>();
  const std::vector<double> rows = kept_.to_vector<double>();
  for (size_t i = 0; i < losses.size(); ++i) {
    const double* const row = rows.data() + 4 * i;
    if (losses[i] < 0) continue;
    wrong.push_back({.sample = samples_[static_cast<size_t>(row[0])],
                     .is = static_cast<int64_t>(row[1]),
                     .said = static_cast<int64_t>(row[2]),
                     .probability = row[3],
                     .loss = losses[i]});
  }
  std::ranges::sort(wrong, [](const Evaluation::Wrong& a, const Evaluation::Wrong& b) {
    return std::tuple(-a.loss, a.sample) < std::tuple(-b.loss, b.sample);
  });
  return wrong;
}

}  // namespace brim::train
