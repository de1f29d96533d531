// In which module of a network each launch of a recording is.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <brim/nn/module.h>

#include "nn/module_calls.h"

namespace brim::deploy {

/// Listens while the network computes in a recording of this thread.
class ModuleTracker final : public nn::ModuleListener {
 public:
  /// What a module gave, by its dotted name. Modules with a forward of their own are not among
  /// them.
  using OnOutput = std::function<void(const std::string& module, const Tensor& y)>;

  explicit ModuleTracker(nn::Module& network, OnOutput on_output = {});
  ~ModuleTracker() { nn::module_listener = before_; }
  ModuleTracker(const ModuleTracker&) = delete;
  ModuleTracker& operator=(const ModuleTracker&) = delete;

  void enters(const nn::Module& module) override;
  void leaves() noexcept override;

  /// The dotted names by launch, for so many of them; "": the network itself, or nothing of it.
  std::vector<std::string> modules(size_t count);
  /// How often each module computed.
  const std::map<std::string, int64_t>& calls() const { return calls_; }

 private:
  void name(nn::Module& module, const std::string& path);
  void catch_up();

  nn::ModuleListener* const before_;
  const OnOutput on_output_;
  std::map<const nn::Module*, std::string> names_;
  std::vector<nn::Module::HookHandle> hooks_;
  std::vector<std::string> inside_ = {""};
  std::vector<std::string> all_;
  std::map<std::string, int64_t> calls_;
};

}  // namespace brim::deploy
