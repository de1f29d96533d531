// What a backend offers of streams and events.
#pragma once

#include <functional>
#include <memory>

#include <brim/core/stream.h>

namespace brim {

class StreamRuntime {
 public:
  virtual ~StreamRuntime() = default;

  virtual Stream create_stream(int device) = 0;
  /// One that create_stream() never hands out again, for as long as the process lives.
  virtual Stream create_private_stream(int device) { return create_stream(device); }
  /// What the stream met before does not keep it from what is queued behind this.
  virtual void forget_errors(Stream stream) { (void)stream; }
  virtual void synchronize(Stream stream) = 0;
  virtual void synchronize(int device) = 0;
  /// An event; `timed`: for elapsed_ms, and then not null.
  virtual std::shared_ptr<void> record(Stream stream, bool timed) = 0;
  virtual void wait(const std::shared_ptr<void>& event, Stream stream) = 0;
  /// The same for memory that is to serve again: what the work before the event met is no concern
  /// of the stream's.
  virtual void wait_until_done(const std::shared_ptr<void>& event, Stream stream) {
    wait(event, stream);
  }
  /// False while what is queued on `stream` goes into a graph: it cannot wait for work outside.
  virtual bool may_wait(Stream stream) {
    (void)stream;
    return true;
  }
  /// The backend's own handle of a stream, such as a cudaStream_t; null where it has none.
  virtual void* native_stream(Stream stream) {
    (void)stream;
    return nullptr;
  }
  /// Makes a native call, not the backend's own, that queues work on `stream` and returns the
  /// native error code. Throws DeviceError where that is one, or there are no such calls.
  virtual void queue_native(Stream stream, const std::function<int()>& call);
  virtual bool query(const std::shared_ptr<void>& event) = 0;
  virtual void synchronize(const std::shared_ptr<void>& event) = 0;
  /// Between timed events of one device that are complete.
  virtual double elapsed_ms(const std::shared_ptr<void>& begin,
                            const std::shared_ptr<void>& end) = 0;
};

}  // namespace brim
