#include "diag/ranges.h"

#include "diag/span.h"

namespace brim::diag {

constinit std::atomic<const RangeSink*> range_sink{nullptr};

namespace {

/// For spans outside of Accountants, which show their own.
class Ranges final : public SpanListener {
 public:
  void opened(const char* name, Cause cause, uint64_t) override {
    range_sink.load()->push(name, cause);
  }
  void closed(const char*, Cause, uint64_t, uint64_t, Cause) override { range_sink.load()->pop(); }
};

}  // namespace

void show_ranges(const RangeSink& sink) {
  range_sink.store(&sink);
  static Ranges ranges;
  static thread_local Meter meter;
  meter.listener = &ranges;
  if (!active_meter) active_meter = &meter;
}

}  // namespace brim::diag
