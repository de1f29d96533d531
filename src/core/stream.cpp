// Streams and events, forwarded to the device's runtime.
#include <brim/core/stream.h>

#include <vector>

#include "core/check.h"
#include "core/runtime.h"
#include "diag/span.h"

namespace brim {
namespace {

/// The streams this thread has made current; devices not listed use their default stream.
thread_local std::vector<Stream> current_streams;

/// The host waits for a device. What it waits in keeps the time, where that is a wait of its own: a
/// host read, say.
class Waiting {
  static diag::Cause cause() {
    using diag::Cause;
    const Cause open = diag::active_meter ? diag::active_meter->open : Cause::user;
    return open == Cause::user || open == Cause::dispatch ? Cause::synchronize : open;
  }
  diag::Span span_{"synchronize", cause()};
};

}  // namespace

Stream Stream::current(Device device) {
  for (const Stream& s : current_streams)
    if (s.device == device) return s;
  return {device, 0};
}

Stream Stream::create(Device device) {
  check_available(device);
  return runtime(device.kind).create_stream(device.index);
}

void Stream::synchronize() const {
  const Waiting waiting;
  runtime(device.kind).synchronize(*this);
}

static void make_current(Stream stream) {
  for (Stream& s : current_streams)
    if (s.device == stream.device) {
      s = stream;
      return;
    }
  current_streams.push_back(stream);
}

StreamGuard::StreamGuard(Stream stream) : previous_(Stream::current(stream.device)) {
  make_current(stream);
}
StreamGuard::~StreamGuard() { make_current(previous_); }

void Event::record(const Stream& stream) {
  device_ = stream.device;
  handle_ = runtime(device_.kind).record(stream, options_.timed);
}
void Event::wait(const Stream& stream) const {
  if (handle_) runtime(device_.kind).wait(handle_, stream);
}
bool Event::query() const { return !handle_ || runtime(device_.kind).query(handle_); }
void Event::synchronize() const {
  if (!handle_) return;
  const Waiting waiting;
  runtime(device_.kind).synchronize(handle_);
}
double Event::elapsed_ms(const Event& end) const {
  for (const Event* event : {this, &end})
    BRIM_CHECK(event->options_.timed && event->handle_, ValueError,
               "[event] elapsed_ms() between events of which one {}; make both with "
               "Event({{.timed = true}}) and record them",
               event->options_.timed ? "was not recorded" : "is not timed");
  BRIM_CHECK(
      device_ == end.device_, ValueError,
      "[event] elapsed_ms() from an event of {} to one of {}: each has its own clock; record "
      "both on one device",
      device_.str(), end.device_.str());
  synchronize();
  end.synchronize();
  return runtime(device_.kind).elapsed_ms(handle_, end.handle_);
}

void synchronize(Device device) {
  check_available(device);
  const Waiting waiting;
  runtime(device.kind).synchronize(device.index);
}

}  // namespace brim
