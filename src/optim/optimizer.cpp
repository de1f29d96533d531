// Parameter groups and the step that all fused optimizers share.
#include <brim/optim/optimizer.h>

#include <brim/autograd/autograd.h>
#include <brim/core/same_bits.h>
#include <brim/ops/create.h>

#include <algorithm>

#include "autograd/node.h"
#include "core/check.h"
#include "core/nearest.h"
#include "core/recording.h"
#include "diag/span.h"
#include "ops/elementwise.h"
#include "ops/memory/copy.h"
#include "optim/rule.h"
#include "optim/step_kernels.h"

namespace brim::optim {

ParameterList::ParameterList(const std::vector<Tensor>& tensors) {
  items.reserve(tensors.size());
  for (const Tensor& t : tensors) items.emplace_back("", t);
}

void Optimizer::append_group(const ParameterList& params) {
  BRIM_CHECK(!params.items.empty(), ValueError, "[{}] got no parameters; is the module empty?",
             kind_);
  size_t number = 0;
  for (const auto& g : groups_) number += g.size();
  std::vector<Parameter> added;
  for (const auto& item : params.items) {
    const std::string& given = item.first;
    const Tensor& tensor = item.second;
    const std::string name = given.empty() ? std::to_string(number) : given;
    ++number;
    BRIM_CHECK(tensor.defined(), ValueError, "[{}] parameter {} is undefined", kind_, name);
    BRIM_CHECK(is_floating(tensor.dtype()), DTypeError,
               "[{}] parameter {} is {}; only floating types have gradients", kind_, name,
               brim::name(tensor.dtype()));
    BRIM_CHECK(tensor.is_leaf(), ValueError,
               "[{}] parameter {} was made by an op and would not be trained; pass the leaf it was "
               "made from, or detach it",
               kind_, name);
    BRIM_CHECK(
        !autograd::is_expanded(tensor), ValueError,
        "[{}] parameter {} is expanded to shape {}, so its elements share memory; clone() it "
        "first",
        kind_, name, tensor.shape().str());
    auto same = [&name, &tensor = tensor](const Parameter& p) {
      return p.name == name || p.tensor.is_same(tensor);
    };
    bool doubled = std::any_of(added.begin(), added.end(), same);
    for (const auto& g : groups_) doubled |= std::any_of(g.begin(), g.end(), same);
    BRIM_CHECK(!doubled, ValueError, "[{}] parameter {} appears twice; give it to one group once",
               kind_, name);
    added.push_back({.name = name, .tensor = tensor});
  }
  groups_.push_back(std::move(added));
  try {
    check_options(groups_.size() - 1);
  } catch (...) {
    groups_.pop_back();
    throw;
  }
}

std::vector<Tensor> Optimizer::parameters(size_t group) const {
  BRIM_CHECK(group < groups_.size(), IndexError, "[{}] there is no group {}, only {}", kind_, group,
             groups_.size());
  std::vector<Tensor> tensors;
  for (const Parameter& p : groups_[group]) tensors.push_back(p.tensor);
  return tensors;
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> tensors;
  for (const auto& g : groups_)
    for (const Parameter& p : g) tensors.push_back(p.tensor);
  return tensors;
}

void Optimizer::zero_grad(bool set_to_none) {
  const diag::Span span("zero_grad", diag::Cause::dispatch);
  const NoGrad guard;
  for (auto& g : groups_)
    for (Parameter& p : g) {
      if (set_to_none)
        p.tensor.zero_grad();
      else if (Tensor grad = p.tensor.grad(); grad.defined())
        grad.zero_();
    }
}

// --- options

std::vector<Optimizer::Field> Optimizer::all_fields(size_t group) const {
  BRIM_CHECK(group < groups_.size(), IndexError, "[{}] there is no group {}, only {}", kind_, group,
             groups_.size());
  return const_cast<Optimizer*>(this)->fields(group);
}

Optimizer::Field Optimizer::find_field(const std::string& name, size_t group) const {
  std::vector<std::string> names;
  for (const Field& field : all_fields(group)) {
    if (name == field.name) return field;
    names.emplace_back(field.name);
  }
  raise<ValueError>("[{}] there is no option '{}'; did you mean '{}'?", kind_, name,
                    nearest_name(name, names));
}

double Optimizer::option(const std::string& name, size_t group) const {
  return std::visit([](auto* value) { return static_cast<double>(*value); },
                    find_field(name, group).value);
}

void Optimizer::set_option(const std::string& name, double value, size_t group) {
  const Field field = find_field(name, group);
  const double before = option(name, group);
  auto assign = [&](double v) {
    std::visit([v](auto* p) { *p = static_cast<std::remove_pointer_t<decltype(p)>>(v); },
               field.value);
  };
  assign(value);
  try {
    check_options(group);
  } catch (...) {
    assign(before);
    throw;
  }
}

bool Optimizer::has_option(const std::string& name) const {
  for (const Field& field : all_fields(0))
    if (name == field.name) return true;
  return false;
}

void Optimizer::set_lr(double lr) {
  for (size_t g = 0; g < groups_.size(); ++g) set_lr(lr, g);
}

// --- the step

Optimizer::Rule Optimizer::rule(size_t, int64_t) const {
  raise<NotImplemented>(
      "[{}] has no step of its own for this: override step(), and step_if_finite() for a "
      "GradScaler",
      kind_);
}

std::vector<Optimizer::Parameter>& Optimizer::group(size_t index) {
  if (recording && !noted_) [[unlikely]]
    note_use();
  return groups_[index];
}

void Optimizer::note_use() {
  noted_ = true;
  struct Use {
    std::vector<double> options;
    std::vector<int64_t> before, after;  // steps of all parameters
    std::vector<const Storage*> states;  // held by the plan
  };
  const auto options = [this] {
    std::vector<double> values;
    for (size_t g = 0; g < groups_.size(); ++g)
      for (const Field& field : all_fields(g)) values.push_back(option(field.name, g));
    return values;
  };
  const auto steps = [this] {
    std::vector<int64_t> counts;
    for (const auto& group : groups_)
      for (const Parameter& p : group) counts.push_back(p.steps);
    return counts;
  };
  const auto states = [this] {
    std::vector<const Storage*> storages;
    for (const auto& group : groups_)
      for (const Parameter& p : group)
        for (const Tensor& t : p.state)
          storages.push_back(t.defined() ? t.storage().get() : nullptr);
    return storages;
  };
  // Of as many parameters as there were: a group may have been added since.
  const auto set_steps = [this](const auto& value) {
    size_t i = 0;
    for (auto& group : groups_)
      for (Parameter& p : group) p.steps = value(p.steps, i++);
  };
  const auto use = std::make_shared<Use>(Use{options(), steps(), {}, {}});
  const std::weak_ptr<char> life = life_;
  backend::LaunchRecorder& recorder = *backend::launch_recorder();
  recorder.at_end([this, life, use, steps, states] {
    if (life.expired()) return;
    use->after = steps();
    use->states = states();
    noted_ = false;
  });
  recorder.uses(
      {.unchanged =
           [life, use, options, steps, states] {
             return !life.expired() &&
                    std::ranges::equal(options(), use->options, same_bits<double>) &&
                    steps().size() == use->before.size() && states() == use->states;
           },
       .commit =
           [use, set_steps] {
             set_steps([&](int64_t now, size_t i) { return now + use->after[i] - use->before[i]; });
           },
       .undo =
           [life, use, set_steps] {
             if (life.expired()) return;
             set_steps([&](int64_t now, size_t i) {
               return i < use->before.size() ? use->before[i] : now;
             });
           }});
}

Optimizer::Bucket& Optimizer::bucket(size_t group, const Parameter& p, size_t& used) {
  const Device device = p.tensor.device();
  const DType dtype = p.tensor.dtype();
  const bool masters = has_master(group, p);
  const int64_t step = p.steps + p.recorded + 1;
  for (size_t i = 0; i < used; ++i) {
    Bucket& b = buckets_[i];
    if (b.device == device && b.dtype == dtype && b.masters == masters && b.step == step &&
        b.skipped.is_same(p.skipped))
      return b;
  }
  if (used == buckets_.size()) buckets_.emplace_back();
  Bucket& b = buckets_[used++];
  b.clear();  // a step that threw has left its tensors
  b.device = device;
  b.dtype = dtype;
  b.masters = masters;
  b.step = step;
  b.skipped = p.skipped;
  return b;
}

bool Optimizer::has_master(size_t group, const Parameter& p) const {
  const DType dtype = p.tensor.dtype();
  return (dtype == f16 || dtype == bf16) && master_weights(group);
}

DType Optimizer::state_dtype(size_t group, const Parameter& p) const {
  return has_master(group, p) ? f32 : p.tensor.dtype();
}

void Optimizer::make_states(size_t group, Parameter& p, size_t count) const {
  const bool lacks_master = !p.master.defined() && has_master(group, p);
  if (p.state.size() >= count && !lacks_master) return;
  const RecordingPause now;  // they outlive the step that makes them
  const auto zeros_of_state = [&] {
    Tensor t = ops::empty_as(p.tensor, state_dtype(group, p));
    ops::fill_elements(t, 0);
    return t;
  };
  while (p.state.size() < count) p.state.push_back(zeros_of_state());
  if (lacks_master) p.master = zeros_of_state();
}

void Optimizer::repeat_in_plan(size_t g, const Bucket& b) {
  backend::LaunchRecorder& recorder = *backend::launch_recorder();
  backend::Launch& launch = recorder.last_launch();
  struct Seen {
    size_t member;
    int64_t ahead;  // steps of it that the plan takes before this one
    std::vector<Storage*> states;
    Storage* master;  // null for none
    TensorImpl* skipped;
  };
  std::vector<Seen> seen;
  for (const size_t k : b.members) {
    Parameter& p = groups_[g][k];
    Seen s{k, p.recorded++, {}, b.masters ? p.master.storage().get() : nullptr, p.skipped.impl()};
    for (const Tensor& t : p.state) s.states.push_back(t.storage().get());
    seen.push_back(std::move(s));
  }
  const std::weak_ptr<char> life = life_;
  recorder.at_end([this, life, g, members = b.members] {
    if (life.expired()) return;
    for (const size_t k : members) groups_[g][k].recorded = 0;
  });
  const StepKernel* kernel = &rule(g, b.step).kernel;
  launch.refresh = [this, life, g, seen, kernel](backend::Launch& l) {
    if (life.expired()) return false;
    const auto& group = groups_[g];
    const auto step_of = [&](const Seen& s) { return group[s.member].steps + s.ahead + 1; };
    const int64_t step = step_of(seen.front());
    for (const Seen& s : seen) {  // load_state_dict may have replaced them
      const Parameter& p = group[s.member];
      if (step_of(s) != step || p.state.size() != s.states.size() || p.skipped.impl() != s.skipped)
        return false;
      if ((has_master(g, p) ? p.master.storage().get() : nullptr) != s.master) return false;
      for (size_t k = 0; k < s.states.size(); ++k)
        if (p.state[k].storage().get() != s.states[k]) return false;
    }
    const Rule r = rule(g, step);
    if (&r.kernel != kernel) return false;
    formula::StepParams& params = *l.option<formula::StepParams>();
    params = r.params;
    // Where no step is skipped nobody reads it, and numbers that stay are not sent to the device.
    if (seen.front().skipped) params.step = static_cast<double>(step);
    return true;
  };
  launch.commit = [this, g, members = b.members] {
    for (const size_t k : members) ++groups_[g][k].steps;
  };
}

void Optimizer::step() { update({}); }

void Optimizer::step_if_finite(const Tensor& found_inf) {
  ops::check_defined("step_if_finite", found_inf);
  update(found_inf);
}

void Optimizer::launch(Bucket& b, size_t g, Tensor found_inf) {
  Rule r = rule(g, b.step);
  const StepKernel& kernel = b.masters ? with_masters(r.kernel) : r.kernel;
  r.params.step = static_cast<double>(b.step);
  for (Tensor& t : b.params) t.storage()->bump_version();
  if (!found_inf.defined() && !b.skipped.defined()) {
    kernel(b.device, b.dtype, b.params, b.grads, b.states, r.params);
    return;
  }
  if (!b.skipped.defined()) {
    const RecordingPause now;  // it outlives the step that makes it
    b.skipped = zeros({}, {.device = b.device});
    for (const size_t k : b.members) groups_[g][k].skipped = b.skipped;
  }
  if (!found_inf.defined()) found_inf = zeros({}, {.device = b.device});
  ops::common_device(kind_, found_inf, b.skipped);
  ops::common_dtype(kind_, found_inf, b.skipped);
  guarded(kernel)(b.device, b.dtype, b.params, b.grads, b.states, found_inf, b.skipped, r.params);
}

void Optimizer::update(const Tensor& found_inf) {
  const diag::Span span("optimizer", diag::Cause::dispatch);
  const NoGrad guard;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<const char*> names = state_names(g);
    size_t used = 0;
    for (Parameter& p : groups_[g]) {
      Tensor grad = p.tensor.grad();
      if (!grad.defined()) continue;
      const Device device = p.tensor.device();
      make_states(g, p, names.size());
      Bucket& b = bucket(g, p, used);
      const auto add_state = [&](const char* what, const Tensor& state, DType dtype) {
        BRIM_CHECK(state.device() == device && state.dtype() == dtype, DeviceError,
                   "[{}] parameter {} is {} on {}, its {} {} on {}; make the optimizer after to(), "
                   "with master_weights from the beginning, or load its state dict again",
                   kind_, p.name, name(p.tensor.dtype()), device.str(), what, name(state.dtype()),
                   state.device().str());
        b.states.push_back(state);
      };
      for (size_t k = 0; k < names.size(); ++k) add_state(names[k], p.state[k], state_dtype(g, p));
      if (b.masters) add_state("master_weight", p.master, f32);
      b.members.push_back(static_cast<size_t>(&p - groups_[g].data()));
      b.params.push_back(p.tensor);
      b.grads.push_back(std::move(grad));
    }
    for (size_t i = 0; i < used; ++i) {
      Bucket& b = buckets_[i];
      launch(b, g, found_inf);
      if (recording) [[unlikely]]
        repeat_in_plan(g, b);
      else
        for (size_t k : b.members) ++groups_[g][k].steps;
      b.clear();
    }
  }
}

}  // namespace brim::optim
