#include "dist/reducer.h"

#include <brim/autograd/autograd.h>
#include <brim/core/stream.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/clock.h"
#include "core/hash.h"
#include "diag/span.h"
#include "dist/collectives.h"

namespace brim::dist {

/// On all parameters, while it lives.
struct Reducer::Hooks {
  explicit Hooks(Reducer& reducer) : parameters(reducer.parameters_) {
    for (size_t i = 0; i < parameters.size(); ++i)
      ids.push_back(parameters[i].requires_grad()
                        ? parameters[i].register_post_accumulate_grad_hook(
                              [&reducer, i](Tensor&) { reducer.ready(i); })
                        : 0);
  }
  ~Hooks() {
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] != 0) parameters[i].remove_hook(ids[i]);
  }
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  std::vector<Tensor>& parameters;
  std::vector<int> ids;
};

Reducer::Reducer(GroupPtr group, std::vector<Tensor> parameters)
    : group_(std::move(group)), parameters_(std::move(parameters)) {}

void Reducer::ready(size_t parameter) {
  if (!buckets_) {
    times_[parameter] = steady_seconds();
    return;
  }
  BRIM_CHECK(!is_ready_[parameter] || bucket_of_[parameter] >= queued_, ValueError,
             "[dist] backward adds to the gradient of a parameter of shape {} that is sent to the "
             "other ranks already; call backward() once, with the sum of the losses",
             parameters_[parameter].shape().str());
  if (!is_ready_[parameter]) --left_[bucket_of_[parameter]];
  is_ready_[parameter] = true;
  // The last one goes when all is known: what has no gradient, and what `others` are by then.
  while (queued_ + 1 < buckets_->size() && left_[queued_] == 0) queue_bucket();
}

void Reducer::take(size_t parameter) {
  Tensor& g = gradients_[parameter];
  g = parameters_[parameter].grad();
  if (!g.defined()) return;
  g = g.detach().contiguous();
  if (g.dtype() == DType::f32) g = g.to(exchanged_);
}

void Reducer::queue_bucket() {
  const diag::Span span("reduce gradients", diag::Cause::dispatch);
  const NoGrad guard;
  std::vector<Tensor> tensors;
  if (queued_ + 1 == buckets_->size()) tensors = std::exchange(others_, {});
  uint64_t which = queued_;  // tells apart buckets, and who has gradients there
  for (const size_t parameter : (*buckets_)[queued_]) {
    take(parameter);
    const bool defined = gradients_[parameter].defined();
    which = splitmix64(which + (defined ? 1 : 0));
    if (defined) tensors.push_back(gradients_[parameter]);
  }
  ++queued_;
  if (tensors.empty()) return;
  const auto work = [group = group_, tensors, which](const Context&) {
    const NoGrad off;
    by_dtype(tensors, [&](std::vector<Tensor>& same) {
      all_reduce_nodes(*group, same, group->size(), which);
    });
  };
  const Stream main = Stream::current(tensors[0].device());
  if (buckets_->size() == 1) {
    work({main});
    return;
  }
  if (!side_) side_ = plan::SideStream::create(main.device);
  side_->queue(
      [work](const Context& context) {
        const StreamGuard scope(context.stream);
        work(context);
      },
      main);
}

void Reducer::choose(double end) {
  // What has no gradient comes last: it may have one in another step.
  std::vector<plan::ReadyBytes> ready;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto bytes = static_cast<double>(parameters_[i].numel()) *
                       static_cast<double>(size_of(parameters_[i].dtype()));
    if (parameters_[i].requires_grad())
      ready.push_back({std::min(times_[i], end), bytes});
    else
      ready.push_back({0, 0});
  }
  const LinkSpeed speed = group_->link_speed(parameters_[0].device());
  if (speed.latency <= 0 && !plan::forced_buckets) {  // not measured, in any rank
    buckets_ = plan::read_buckets("", parameters_.size());
    return;
  }
  const backend::Communication link{.latency = speed.latency,
                                    .seconds_per_byte = speed.seconds_per_byte,
                                    .waiting = speed.waiting,
                                    .settle = {}};
  uint64_t shapes = parameters_.size();
  for (const Tensor& p : parameters_)
    for (const int64_t n : p.shape()) shapes = splitmix64(shapes ^ static_cast<uint64_t>(n));
  const std::string text = group_->settle(fmt::format("eager gradients {:x}", shapes),
                                          plan::text_of(plan::choose_buckets(ready, link, end)));
  buckets_ = plan::read_buckets(text, parameters_.size());
  BRIM_CHECK(buckets_, DistError,
             "[dist] rank 0 reduces gradients in the buckets {}, of {} parameters here; train the "
             "same network in all ranks",
             text, parameters_.size());
}

void Reducer::give_up(const std::string& why) noexcept {
  if (queued_ == 0) return;
  group_->abort(why);  // the others have summed what this rank will not use
  try {
    side_->finish(Stream::current(parameters_[0].device()));
  } catch (...) {  // what it says, too
  }
}

std::vector<Tensor> Reducer::run(const std::function<void()>& backward, std::vector<Tensor> others,
                                 DType exchanged) {
  exchanged_ = exchanged;
  others_ = std::move(others);
  gradients_.assign(parameters_.size(), {});
  is_ready_.assign(parameters_.size(), false);
  queued_ = 0;
  const bool first = !buckets_;
  if (first) {
    times_.assign(parameters_.size(), std::numeric_limits<double>::infinity());
  } else {
    left_.assign(buckets_->size(), 0);
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].requires_grad()) ++left_[bucket_of_[i]];
  }
  try {
    std::optional<Hooks> hooks;
    if (first || buckets_->size() > 1) hooks.emplace(*this);
    backward();
  } catch (const std::exception& e) {
    give_up(e.what());
    throw;
  } catch (...) {
    give_up("its backward pass threw something");
    throw;
  }
  if (first) choose(steady_seconds());
  if (first) {
    bucket_of_.resize(parameters_.size());
    for (size_t b = 0; b < buckets_->size(); ++b)
      for (const size_t parameter : (*buckets_)[b]) bucket_of_[parameter] = b;
  }
  while (queued_ < buckets_->size()) queue_bucket();
  if (side_) side_->finish(Stream::current(parameters_[0].device()));
  return std::exchange(gradients_, {});
}

}  // namespace brim::dist
