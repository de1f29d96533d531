#include "deploy/module_tracker.h"

#include <utility>

#include "plan/recorder.h"

namespace brim::deploy {

ModuleTracker::ModuleTracker(nn::Module& network, OnOutput on_output)
    : before_(nn::module_listener), on_output_(std::move(on_output)) {
  name(network, "");
  nn::module_listener = this;
}

void ModuleTracker::name(nn::Module& module, const std::string& path) {
  names_.emplace(&module, path);
  hooks_.push_back(
      module.register_forward_hook([this](nn::Module& m, const Tensor&, const Tensor& y) {
        const auto known = names_.find(&m);
        if (on_output_ && known != names_.end()) on_output_(known->second, y);
        return Tensor();
      }));
  for (const auto& [child, of] : module.named_children())
    name(*of, path.empty() ? child : path + "." + child);
}

void ModuleTracker::enters(const nn::Module& module) {
  catch_up();
  const auto known = names_.find(&module);
  inside_.push_back(known == names_.end() ? inside_.back() : known->second);
  if (known != names_.end()) ++calls_[known->second];
}

void ModuleTracker::leaves() noexcept {
  catch_up();
  inside_.pop_back();
}

std::vector<std::string> ModuleTracker::modules(size_t count) {
  all_.resize(count);
  return std::move(all_);
}

void ModuleTracker::catch_up() { all_.resize(plan::recorded_launches(), inside_.back()); }

}  // namespace brim::deploy
