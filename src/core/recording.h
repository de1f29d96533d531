// Who listens while a step is recorded (plan/recorder.h). Recorded work is not done: tensors that
// the step makes have no memory behind them, so whatever would read one on the host is refused.
#pragma once

#include <cstddef>

#include <brim/core/random.h>
#include <brim/core/storage.h>

namespace brim {

struct TensorImpl;

class RecordingListener {
 public:
  /// A storage that the step makes; it has a size and a device, but no memory.
  virtual Ref<Storage> make_storage(size_t bytes, Device device) = 0;
  /// The last handle of such a storage is gone.
  virtual void storage_ends(const Storage& storage) noexcept = 0;
  virtual void drew(Generator& generator, const RandomKey& key) = 0;
  /// The gradient of a leaf is about to be replaced or, where `cleared`, was taken away.
  virtual void grad_changes(TensorImpl& leaf, bool cleared) = 0;
  /// A view of `base` was made: what happens to the base matters to the plan.
  virtual void viewed(TensorImpl& base) = 0;
  /// Something that a plan could not repeat. Throws CompileError, which names it and the cure.
  [[noreturn]] virtual void refuse(const char* op, const char* why) = 0;

  /// Where one kernel can do what several do, ops launch the several, and passes fuse as suits the
  /// whole step. False: ops launch what they launch eagerly.
  bool for_passes = true;

 protected:
  ~RecordingListener() = default;
};

/// The listener of this thread; null unless a step is being recorded.
extern thread_local constinit RecordingListener* recording [[gnu::tls_model("initial-exec")]];

/// Throws CompileError if this thread records a step.
inline void refuse_in_recording(const char* op, const char* why) {
  if (recording) [[unlikely]]
    recording->refuse(op, why);
}

/// In this scope work is done at once, as if no step were recorded: for state that outlives a step
/// and is made by its first run.
class RecordingPause {
 public:
  RecordingPause() : paused_(recording) { recording = nullptr; }
  ~RecordingPause() { recording = paused_; }
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  RecordingListener* paused_;
};

}  // namespace brim
