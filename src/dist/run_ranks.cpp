// Ranks that are threads of one process.
#include <brim/autograd/autocast.h>
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/core/tf32.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>

#include "backend/kernel.h"
#include "core/check.h"
#include "core/start_thread.h"
#include "dist/transport.h"

namespace brim::dist {
namespace {

/// What a thread has switched on, for others.
class Modes {
 public:
  void switch_on(const std::function<void()>& f) const {
    const GradMode grad(grad_);
    const Autocast autocast(dtype_);
    const Tf32 tf32(tf32_);
    const DeviceScope device(device_);
    std::optional<AnomalyMode> anomaly;
    if (anomaly_) anomaly.emplace();
    f();
  }

 private:
  const bool grad_ = grad_enabled(), tf32_ = Tf32::allowed(), anomaly_ = backend::anomaly_mode;
  const DType dtype_ = Autocast::current();
  const Device device_ = default_device();
};

bool is_of_others(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DistError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void run_ranks(const std::vector<GroupPtr>& groups,
               const std::function<void(ProcessGroup&)>& rank) {
  BRIM_CHECK(!groups.empty(), ValueError, "[dist] no ranks to run; give a group for each");
  std::vector<std::exception_ptr> errors(groups.size());
  const auto run = [&](size_t r) {
    try {
      rank(*groups[r]);
    } catch (const std::exception& e) {
      groups[r]->abort(e.what());
      errors[r] = std::current_exception();
    } catch (...) {
      groups[r]->abort("something was thrown that is no std::exception");
      errors[r] = std::current_exception();
    }
  };
  const RandomKey drawn = Generator::global().state();
  const Modes modes;
  std::vector<std::thread> threads;
  for (size_t r = 1; r < groups.size(); ++r) try {
      start_thread([&] {
        threads.emplace_back([&run, &modes, drawn, r] {
          Generator generator;
          generator.set_state(drawn);
          const GeneratorScope scope(generator);
          modes.switch_on([&] { run(r); });
        });
      });
    } catch (const std::exception& e) {
      for (size_t other = r; other < groups.size(); ++other) groups[other]->abort(e.what());
      errors[r] = std::current_exception();
      break;
    }
  run(0);
  for (std::thread& thread : threads) thread.join();
  const auto failed = [](const std::exception_ptr& e) { return e != nullptr; };
  const auto by_itself = std::ranges::find_if(
      errors, [&](const std::exception_ptr& e) { return failed(e) && !is_of_others(e); });
  if (by_itself != errors.end()) std::rethrow_exception(*by_itself);
  const auto first = std::ranges::find_if(errors, failed);
  if (first != errors.end()) std::rethrow_exception(*first);
}

}  // namespace brim::dist
