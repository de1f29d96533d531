#include "command/report_page/read_history.h"

#include <algorithm>

#include "command/report_page/json_values.h"

namespace brim::command::page {
namespace {

constexpr size_t kMaxDevices = 64;
constexpr double kMiB = 1 << 20;

/// Puts the lines of one process after the other on one axis.
class HistoryReader {
 public:
  explicit HistoryReader(Run& run) : run_(run) {}

  void take(const nlohmann::json& line) {
    // A line of another schema says other things by the same keys.
    const std::string schema = text_at(line, "schema");
    if (!schema.empty() && !schema.starts_with("brim.run/1")) return;
    const bool anew = begins_session(line);
    const Point begin = anew ? session_begin_ : now_;
    now_.seconds = std::max(begin.seconds, session_begin_.seconds + elapsed(line));
    now_.step = number_at(line, "step").value_or(0) + number_at(line, "steps_before").value_or(0);
    add_values(line);
    if (const nlohmann::json* devices = find(line, "devices"); devices && devices->is_array())
      for (const nlohmann::json& device : *devices) add_device(begin, device, anew);
    const double images = number_at(line, "images").value_or(0);
    run_.images += anew ? images : std::max(0.0, images - images_);
    images_ = images;
    run_.last = line;
  }

 private:
  /// Whether another process writes from this line on; it was resumed.
  bool begins_session(const nlohmann::json& line) {
    const double started = number_at(line, "started").value_or(0);
    const double pid = number_at(line, "pid").value_or(0);
    if (run_.sessions > 0 && started == started_ && pid == pid_) return false;
    started_ = started;
    pid_ = pid;
    ++run_.sessions;
    session_begin_ = now_;
    session_begin_.step = number_at(line, "steps_before").value_or(now_.step);
    run_.session_begin = session_begin_.seconds;
    run_.session_started = started;
    energy_.clear();
    return true;
  }

  double elapsed(const nlohmann::json& line) const {
    const double time = number_at(line, "time").value_or(started_);
    return std::max(0.0, time - started_);
  }

  void add_values(const nlohmann::json& line) {
    run_.charts.add("loss", "training", now_, find(line, "loss"));
    run_.charts.add("learning_rate", "", now_, find(line, "learning_rate"));
    run_.charts.add("rate", "", now_, find(line, "images_per_s"));
    const nlohmann::json* validation = find(line, "validation");
    if (!validation || !validation->is_object() || *validation == validation_) return;
    validation_ = *validation;
    run_.charts.add("loss", "validation", now_, find(*validation, "loss"));
    if (const nlohmann::json* metrics = find(*validation, "metrics");
        metrics && metrics->is_object())
      for (const auto& [name, value] : metrics->items())
        run_.charts.add("metrics", label_of(name), now_, &value);
  }

  void add_device(const Point& begin, const nlohmann::json& entry, bool anew) {
    const std::string device = text_at(entry, "device");
    if (device.empty()) return;
    if (!run_.accounts.contains(device) && run_.accounts.size() == kMaxDevices) return;
    AccountSeries& account = run_.accounts[device];
    if (const nlohmann::json* given = find(entry, "account"))
      account.add(begin, now_, *given, anew);
    run_.charts.add("memory", device + " live", now_, find(entry, "memory/live"), 1 / kMiB);
    run_.charts.add("memory", device + " peak", now_, find(entry, "memory/peak"), 1 / kMiB);
    if (const std::optional<double> energy = number_at(entry, "energy_j")) {
      double& before = energy_[device];
      run_.energy[device] += std::max(0.0, *energy - before);
      before = *energy;
      const nlohmann::json total = run_.energy[device];
      run_.charts.add("energy", device, now_, &total);
    }
  }

  Run& run_;
  Point now_, session_begin_;
  double started_ = 0, pid_ = 0, images_ = 0;
  std::map<std::string, double> energy_;  // of this process so far
  nlohmann::json validation_;
};

}  // namespace

void read_history(const std::string& path, Run& run) {
  HistoryReader reader(run);
  run.history = read_json_lines(path, [&](const nlohmann::json& line) { reader.take(line); });
}

}  // namespace brim::command::page
