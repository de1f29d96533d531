// State dicts of optimizers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include <brim/autograd/autograd.h>
#include <brim/optim/optimizer.h>

#include "core/check.h"
#include "core/first_names.h"

namespace brim::optim {
namespace {

constexpr const char* kMaster = "master_weight";
constexpr double kMaxSteps = 0x1p53;  // beyond which doubles do not count

}  // namespace

StateDict Optimizer::state_dict() const {
  StateDict state;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const Field& field : all_fields(g))
      state[fmt::format("group.{}.{}", g, field.name)] =
          Tensor::from<double>({option(field.name, g)}, {}, Device::cpu());
    const std::vector<const char*> names = state_names(g);
    Tensor read;  // many parameters share their count of skipped steps
    int64_t skipped = 0;
    for (const Parameter& p : groups_[g]) {
      if (!p.skipped.is_same(read)) {
        read = p.skipped;
        skipped = read.defined() ? static_cast<int64_t>(read.item()) : 0;
      }
      BRIM_CHECK(p.state.size() <= names.size(), ValueError,
                 "[{}] parameter {} has {} state tensors, but state_names() gives {} names", kind_,
                 p.name, p.state.size(), names.size());
      const bool has_begun = p.steps != skipped || (p.steps == 0 && !p.state.empty());
      if (!has_begun) continue;
      const std::string prefix = "state." + p.name + ".";
      state[prefix + "step"] = Tensor::from<int64_t>({p.steps - skipped}, {}, Device::cpu());
      for (size_t k = 0; k < p.state.size(); ++k) state[prefix + names[k]] = p.state[k];
      if (has_master(g, p) && p.master.defined()) state[prefix + kMaster] = p.master;
    }
  }
  return state;
}

void Optimizer::load_state_dict(const StateDict& state) {
  StateDict rest = state;
  std::vector<std::string> faults;
  auto take = [&](const std::string& name) {
    const auto node = rest.extract(name);
    return node.empty() ? Tensor() : node.mapped();
  };
  auto take_number = [&](const std::string& name) {
    const Tensor t = take(name);
    if (!t.defined() || t.numel() != 1) {
      faults.push_back((t.defined() ? "no single number: " : "missing: ") + name);
      return 0.0;
    }
    return t.item<double>();
  };

  // Options first: they decide which state tensors there are. Undone if anything else is wrong.
  std::vector<std::pair<Field, double>> before;
  auto assign = [](const Field& field, double v) {
    std::visit([v](auto* p) { *p = static_cast<std::remove_pointer_t<decltype(p)>>(v); },
               field.value);
  };
  struct Loaded {
    Parameter* parameter;
    int64_t steps;
    std::vector<Tensor> state;
    Tensor master;
  };
  std::vector<Loaded> loaded;
  try {
    for (size_t g = 0; g < groups_.size(); ++g) {
      bool is_older = false;  // than masters: state is widened, and masters begin with the weights
      for (const Field& field : all_fields(g)) {
        before.emplace_back(field, option(field.name, g));
        const std::string name = fmt::format("group.{}.{}", g, field.name);
        if (field.is_new && !rest.contains(name))
          is_older = true;
        else
          assign(field, take_number(name));
      }
      if (faults.empty()) check_options(g);
      const std::vector<const char*> names = state_names(g);
      for (Parameter& p : groups_[g]) {
        const std::string prefix = "state." + p.name + ".";
        Loaded entry{&p, 0, {}, {}};
        if (rest.contains(prefix + "step")) {
          const double steps = take_number(prefix + "step");
          if (!(steps >= 0 && steps < kMaxSteps && steps == std::floor(steps)))
            faults.push_back(fmt::format("{}step is {}", prefix, steps));
          else
            entry.steps = static_cast<int64_t>(steps);
          const DType dtype = state_dtype(g, p);
          const auto take_state = [&](const char* name) {
            Tensor from = take(prefix + name);
            if (is_older && from.defined() && from.dtype() == p.tensor.dtype())
              from = from.to(dtype);
            if (!from.defined())
              faults.push_back("missing: " + prefix + name);
            else if (from.shape() != p.tensor.shape() || from.dtype() != dtype)
              faults.push_back(fmt::format("{}{} is {} {} instead of {} {}", prefix, name,
                                           from.shape().str(), brim::name(from.dtype()),
                                           p.tensor.shape().str(), brim::name(dtype)));
            return from;
          };
          for (const char* name : names) entry.state.push_back(take_state(name));
          if (has_master(g, p) && !is_older) entry.master = take_state(kMaster);
        }
        loaded.push_back(std::move(entry));
      }
    }
    for (const auto& [name, value] : rest) faults.push_back("unexpected: " + name);
    BRIM_CHECK(faults.empty(), ValueError,
               "[{}] the state dict does not fit: {}; is it of another optimizer or model?", kind_,
               first_names(faults));
    // The caller keeps its tensors: steps must not write into them.
    const NoGrad guard;
    for (Loaded& entry : loaded) {
      const auto own = [&](const Tensor& t) {
        return t.copy_to(entry.parameter->tensor.device()).contiguous();
      };
      for (Tensor& t : entry.state) t = own(t);
      if (entry.master.defined()) entry.master = own(entry.master);
    }
  } catch (...) {
    for (const auto& [field, value] : before) assign(field, value);
    throw;
  }
  for (Loaded& entry : loaded) {
    entry.parameter->steps = entry.steps;
    entry.parameter->state = std::move(entry.state);
    entry.parameter->master = std::move(entry.master);
    entry.parameter->skipped = {};
  }
}

}  // namespace brim::optim
