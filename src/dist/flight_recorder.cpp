#include "dist/flight_recorder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace brim::dist {

void FlightRecorder::begin(const Call& call, double now) {
  entries_[count_++ % kCalls] = {call, now, 0};
}

void FlightRecorder::end(double now) { entries_[(count_ - 1) % kCalls].end = now; }

std::string FlightRecorder::json(int rank, int size, const std::string& error, double now) const {
  using Json = nlohmann::ordered_json;
  Json calls = Json::array();
  for (uint64_t i = count_ - std::min<uint64_t>(count_, kCalls); i < count_; ++i) {
    const Entry& e = entries_[i % kCalls];
    calls.push_back({{"call", e.call.str()},
                     {"seconds_ago", now - e.begin},
                     {"seconds", e.end > 0 ? Json(e.end - e.begin) : Json(nullptr)}});
  }
  const Json record = {{"rank", rank}, {"world_size", size}, {"error", error}, {"calls", calls}};
  return record.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace brim::dist
