#include "optim/step_kernels.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backend/options/master_weights.h"

namespace brim::optim {
namespace {

/// A kernel made for another, once. Kernels keep a pointer to their names.
template <class K>
class Forms {
 public:
  template <class Make>
  const K& of(const StepKernel& kernel, std::string (*name)(const char*), const Make& make) {
    const std::lock_guard lock(mutex_);
    Form& form = forms_[&kernel];
    if (!form.kernel) {
      form.name = name(kernel.name());
      form.kernel = std::make_unique<K>(make(form.name.c_str()));
    }
    return *form.kernel;
  }

 private:
  struct Form {
    std::string name;
    std::unique_ptr<K> kernel;
  };
  std::mutex mutex_;
  std::map<const StepKernel*, Form> forms_;
};

}  // namespace

const backend::GuardedStepKernel& guarded(const StepKernel& kernel) {
  static auto& forms = *new Forms<backend::GuardedStepKernel>;
  return forms.of(kernel, backend::guarded_step_name, [](const char* name) {
    return backend::GuardedStepKernel(
        name, {.operands = "rw params, grads, rw states, found_inf, rw skipped"});
  });
}

const StepKernel& with_masters(const StepKernel& kernel) {
  static auto& forms = *new Forms<StepKernel>;
  return forms.of(kernel, backend::master_step_name,
                  [](const char* name) { return StepKernel(name); });
}

}  // namespace brim::optim
