#include "dist/reducer.h"

#include <brim/autograd/autograd.h>
#include <brim/core/stream.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/clock.h"
#include "core/hash.h"
#include "diag/span.h"
#include "dist/collective_kernels.h"
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
    : group_(std::move(group)), parameters_(std::move(parameters)) {
  use(*plan::read_buckets("", parameters_.size()));
}

void Reducer::use(plan::Buckets buckets) {
  buckets_ = std::move(buckets);
  bucket_of_.resize(parameters_.size());
  for (size_t b = 0; b < buckets_.size(); ++b)
    for (const size_t parameter : buckets_[b]) bucket_of_[parameter] = b;
}

void Reducer::ready(size_t parameter) {
  const int before = times_ready_[parameter]++;
  if (stage_ == Stage::cold) return;
  if (stage_ == Stage::timed) {
    const Device device = parameters_[parameter].device();
    seconds_[parameter] = steady_seconds();
    if (!device.is_cpu()) events_[parameter].record(Stream::current(device));
    return;
  }
  const size_t bucket = bucket_of_[parameter];
  BRIM_CHECK(before == 0 || bucket >= queued_, ValueError,
             "[dist] backward adds to the gradient of a parameter of shape {} that was sent to the "
             "other ranks; call backward() once, with the sum of the losses, or "
             "DataParallel::overlap(false)",
             parameters_[parameter].shape().str());
  if (before == 0) --left_[bucket];
  // The last one goes when all is known: what has no gradient, and what `others` are by then.
  while (queued_ + 1 < buckets_.size() && left_[queued_] == 0) queue_bucket();
}

void Reducer::check_sent() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (bucket_of_[i] >= queued_ || !sent_[i].defined()) continue;
    const Tensor now = parameters_[i].grad();
    BRIM_CHECK(
        now.defined() && now.is_same(sent_[i]), ValueError,
        "[dist] the gradient of a parameter of shape {} was replaced when it was sent to the "
        "other ranks; change gradients behind forward_backward(), or call "
        "DataParallel::overlap(false)",
        parameters_[i].shape().str());
  }
}

void Reducer::queue_bucket() {
  const diag::Span span("reduce gradients", diag::Cause::dispatch);
  const NoGrad guard;
  std::vector<Tensor> tensors;
  if (queued_ + 1 == buckets_.size()) tensors = std::exchange(others_, {});
  uint64_t which = queued_;  // tells apart buckets, and who has gradients there
  for (const size_t parameter : buckets_[queued_]) {
    Tensor& g = gradients_[parameter];
    g = sent_[parameter] = parameters_[parameter].grad();
    BRIM_CHECK(
        g.defined() || times_ready_[parameter] == 0, ValueError,
        "[dist] the gradient of a parameter of shape {} is gone before ranks exchange it; a hook "
        "must not step an optimizer: step behind forward_backward()",
        parameters_[parameter].shape().str());
    which = splitmix64(which + (g.defined() ? 1 : 0));
    if (!g.defined()) continue;
    g = g.detach().contiguous();
    if (g.dtype() == DType::f32) g = g.to(exchanged_);
    tensors.push_back(g);
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
  if (buckets_.size() == 1) {
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

std::vector<plan::ReadyBytes> Reducer::ready_bytes() const {
  std::vector<plan::ReadyBytes> all;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    if (times_ready_[i] == 0) {  // last: it may have a gradient in another step
      all.push_back({p.requires_grad() ? seconds_.back() : 0, 0});
      continue;
    }
    const DType dtype = p.dtype() == DType::f32 ? exchanged_ : p.dtype();
    const double bytes = static_cast<double>(p.numel()) * static_cast<double>(size_of(dtype));
    const double seconds = p.device().is_cpu() ? seconds_[i] : begun_.elapsed_ms(events_[i]) * 1e-3;
    all.push_back({seconds, bytes});
  }
  return all;
}

/// All ranks have made the same steps when they come here.
void Reducer::choose() {
  const Device device = parameters_[0].device();
  const LinkSpeed speed = group_->link_speed(device);
  stage_ = Stage::chosen;
  if (speed.latency <= 0 && !plan::forced_buckets) return;  // not measured, in any rank
  const backend::Communication link{.latency = speed.latency,
                                    .seconds_per_byte = speed.seconds_per_byte,
                                    .waiting = speed.waiting,
                                    .settle = {}};
  if (!device.is_cpu()) seconds_.back() = begun_.elapsed_ms(events_.back()) * 1e-3;
  const bool once = std::ranges::all_of(times_ready_, [](int times) { return times <= 1; });
  const std::string found =
      once ? plan::text_of(plan::choose_buckets(ready_bytes(), link, seconds_.back()))
           : plan::text_of(buckets_);
  const Call call = call_of(CallKind::all_reduce, parameters_, {}, /*is_replayed=*/false);
  const std::string text =
      group_->settle(fmt::format("eager {} {:x}", call.str(), call.shapes), found);
  std::optional<plan::Buckets> buckets = plan::read_buckets(text, parameters_.size());
  BRIM_CHECK(buckets, DistError,
             "[dist] rank 0 reduces gradients in the buckets {}, of {} parameters here; train the "
             "same network in all ranks",
             text, parameters_.size());
  use(*std::move(buckets));
}

void Reducer::give_up(const std::string& why) noexcept {
  if (queued_ == 0) return;
  group_->abort(why);  // the others have summed what this rank will not use
  if (side_) try {
      side_->finish(Stream::current(parameters_[0].device()));
    } catch (...) {  // what it says, too
    }
}

std::vector<Tensor> Reducer::run(const std::function<void()>& backward, std::vector<Tensor> others,
                                 DType exchanged) {
  const size_t count = parameters_.size();
  const Stream main = Stream::current(parameters_[0].device());
  exchanged_ = exchanged;
  others_ = std::move(others);
  gradients_.assign(count, {});
  sent_.assign(count, {});
  times_ready_.assign(count, 0);
  left_.assign(buckets_.size(), 0);
  for (size_t i = 0; i < count; ++i)
    if (parameters_[i].requires_grad()) ++left_[bucket_of_[i]];
  queued_ = 0;
  if (stage_ == Stage::timed) {
    seconds_.assign(count + 1, 0);  // and of the end
    events_.assign(count + 1, Event({.timed = true}));
    begun_ = Event({.timed = true});
    if (!main.device.is_cpu()) begun_.record(main);
  }
  try {
    {
      std::optional<Hooks> hooks;
      if (stage_ != Stage::chosen || buckets_.size() > 1) hooks.emplace(*this);
      backward();
    }
    if (stage_ == Stage::timed) {
      seconds_.back() = steady_seconds();
      if (!main.device.is_cpu()) events_.back().record(main);
    }
    check_sent();
    while (queued_ < buckets_.size()) queue_bucket();
    if (side_) side_->finish(main);
  } catch (const std::exception& e) {
    give_up(e.what());
    throw;
  } catch (...) {
    give_up("its backward pass threw something");
    throw;
  }
  if (stage_ == Stage::timed)
    choose();
  else if (stage_ == Stage::cold)
    stage_ = Stage::timed;
  sent_.clear();
  return std::exchange(gradients_, {});
}

}  // namespace brim::dist
