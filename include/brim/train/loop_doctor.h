// The doctor of a training loop of one's own.
//
//   train::LoopDoctor doctor(loader, device, [&](const data::Batch& batch) {
//     optimizer.zero_grad();
//     cross_entropy((*net)(batch.x), batch.y).backward();
//     optimizer.step();
//   });
//   doctor.keep(*net);
//   doctor.keep(optimizer);
//   const train::LoopCure cure = doctor.cure();
//   data::DeviceLoader feed = doctor.feed(cure.setting);
//   const train::LoopDoctor::Step step = doctor.step(cure.setting);
//   for (const data::Batch& batch : feed) step(batch);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <brim/core/device.h>
#include <brim/core/tensor.h>
#include <brim/data/device_loader.h>
#include <brim/data/loader.h>
#include <brim/nn/module.h>
#include <brim/optim/grad_scaler.h>
#include <brim/optim/optimizer.h>
#include <brim/optim/schedule.h>
#include <brim/train/checkpoint.h>
#include <brim/train/doctor.h>

namespace brim::train {

/// How a loop gets its batches, and whether its step is compiled.
struct LoopSetting {
  std::optional<int> workers = {};  ///< LoaderOptions::workers; empty: as the loader has them
  /// Where pictures are cropped, mirrored and normalised.
  data::AugmentOn augment_on = data::AugmentOn::automatic;
  bool resident = false;      ///< DeviceLoaderOptions::resident
  bool compile = false;       ///< LoopDoctor::step() makes a plan of it
  std::string passes = {};    ///< of that plan, see CompileOptions::passes
  bool repeat_batch = false;  ///< every step gets the first batch again; not with `resident`
};
using LoopCure = CureOf<LoopSetting>;  ///< Of a loop of one's own.

/// Runs the loop for moments, from the beginning of the data. What is tried changes no bit of what
/// the loop computes, but for what DoctorOptions allow: its precision and batch are its author's.
/// For one thread.
class LoopDoctor {
 public:
  /// Trains on a batch that is on the device.
  using Step = std::function<void(const data::Batch& batch)>;

  /// `now`: how the loop runs without a change. Throws ValueError for options out of range, and for
  /// no step.
  LoopDoctor(const data::Loader& loader, Device device, Step step, LoopSetting now = {},
             DoctorOptions how = {});
  ~LoopDoctor();
  LoopDoctor(const LoopDoctor&) = delete;
  LoopDoctor& operator=(const LoopDoctor&) = delete;

  // What the step changes, to be put back after each short training, whatever ends it (a module's
  // gradients, too); what is not named here is changed when the doctor is done. A plan of the step
  // is tried where something is, since that shows whether it does the same. Generator::global() is
  // put back in any case. Objects must outlive this. Iterable data forgets where it was: come
  // before Checkpoint::resume().
  ///@{
  /// Puts its state back after each short training.
  void keep(nn::Module& module);
  void keep(optim::Optimizer& optimizer);
  void keep(optim::Schedule& schedule);
  void keep(optim::GradScaler& scaler);
  void keep(Tensor& value);
  void keep(Checkpoint::State state);
  ///@}

  /// Throws what the loader and the step throw; ValueError for data without a batch.
  Diagnosis diagnose();
  /// Tries changes one at a time, those first that may gain most, and keeps what is faster.
  LoopCure cure();

  /// What the loop takes its batches from. Throws what data::DeviceLoader does.
  data::DeviceLoader feed(const LoopSetting& setting) const;
  /// The step as it is, or compiled: then it is run to be recorded, with a batch that has tensors
  /// alone, and what compile() says of steps holds. The doctor has compared both over as many steps
  /// as a short training has; what is rarer than that (every thousandth step) is its author's to
  /// know.
  Step step(const LoopSetting& setting) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brim::train
