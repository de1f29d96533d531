#include "command/treatment.h"

#include <cstdio>
#include <string>

#include "command/command.h"
#include "command/doctor_report.h"
#include "command/progress.h"
#include "command/say.h"
#include "command/training_options.h"

namespace brim::command {

train::Cure treat(const TrainRequest& request, const Treatment& how, const std::atomic<int>& stop) {
  if (request.launched.is_distributed())
    throw UsageError("the doctor examines one process; name several devices with --device instead");
  set_limits(request);
  ProgressDisplay display(how.quiet);
  const auto tell = [&](const auto& print) {
    display.finish();
    if (how.quiet) return;
    print();
    std::fflush(stdout);
  };
  const train::DoctorOptions options{
      .allow_rounding = how.allow_rounding,
      .allow_precision = how.allow_precision,
      .allow_batch = how.allow_batch,
      .seconds = how.seconds,
      .progress = [&](const std::string& what, double fraction) { display.show(what, fraction); },
      .diagnosed =
          [&](const train::Diagnosis& found) {
            tell([&] { print_diagnosis(found, request.chosen.devices[0].str()); });
          },
      .tried =
          [&](const train::Trial& trial) { tell([&] { say(stdout, "{}\n", trial_line(trial)); }); },
      .stop = &stop};
  tell([&] { say(stdout, "{}\n", examined_line(request)); });
  return on_chosen(request.chosen, [&] {
    train::Doctor doctor(request.recipe, train_options(request), options);
    train::Cure cure;
    if (how.fix) {
      cure = doctor.cure();
      if (stop.load() == 0) tell([&] { print_cure(request, cure); });
    } else {
      cure.before = doctor.diagnose();
      if (stop.load() == 0) options.diagnosed(cure.before);
    }
    return cure;
  });
}

}  // namespace brim::command
