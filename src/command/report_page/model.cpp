#include "command/report_page/model.h"

#include <algorithm>
#include <optional>
#include <span>

#include "command/report_page/compare.h"
#include "command/report_page/compression.h"
#include "command/report_page/json_values.h"
#include "command/report_page/operations.h"

namespace brim::command::page {
namespace {

using Json = nlohmann::ordered_json;

/// Of all lines of all charts, some 25 bytes each.
constexpr size_t kAllPoints = 16000, kMaxPoints = 1000, kMinPoints = 20;
/// Of all accounts, some 150 bytes each.
constexpr size_t kAllStretches = 900, kMaxStretches = 300, kMinStretches = 10;
constexpr size_t kWorst = 8;

/// What the page reads of result.json and of the history's last line.
constexpr const char* kResultKeys[] = {
    "recipe",       "data",          "device",         "task",
    "precision",    "images_per_s",  "us_per_step",    "steps",
    "total_steps",  "total_images",  "epochs",         "batch",
    "final_loss",   "accuracy",      "metrics",        "classes",
    "per_class",    "confusion",     "test_loss",      "test_samples",
    "test_skipped", "validation",    "seed",           "peak_memory",
    "seconds",      "startup_ms",    "threads",        "loader",
    "skipped",      "resumed_from",  "checkpoints",    "checkpoint_failures",
    "stopped",      "stopped_early", "versions",       "ranks",
    "recorded",     "heat",          "reconciliation", "doctor"};
constexpr const char* kLastKeys[] = {
    "recipe", "data",         "task",        "precision",
    "batch",  "state",        "hostname",    "started",
    "time",   "steps",        "step",        "steps_before",
    "epochs", "skipped",      "checkpoints", "checkpoint_failures",
    "loss",   "images_per_s", "validation",
};

Json selected(const nlohmann::json& from, std::span<const char* const> keys) {
  Json result = Json::object();
  for (const char* key : keys)
    if (const nlohmann::json* value = find(from, key)) result[key] = cleaned(*value);
  return result;
}

size_t share_of(size_t all, size_t parts, size_t least, size_t most) {
  return std::clamp(all / std::max<size_t>(parts, 1), least, most);
}

Json lines_of(const Charts& charts, size_t limit) {
  Json lines = Json::array();
  for (const Charts::Line& line : charts.lines()) {
    Json points = Json::array();
    for (const Point& p : thinned(line.points, limit))
      points.push_back({rounded_for_chart(p.seconds), p.step, rounded_for_chart(p.value)});
    lines.push_back({{"chart", line.chart}, {"label", line.label}, {"points", points}});
  }
  return lines;
}

/// The causes in the order of their time, and a row a stretch: begin, end, seconds of each.
Json stretches_json(const AccountSeries& account, const Json& causes, size_t limit) {
  Json rows = Json::array();
  for (const Stretch& stretch : merged(account.stretches(), limit)) {
    Json seconds = Json::array();
    for (const Json& cause : causes) {
      const auto found = stretch.seconds.find(cause.get_ref<const std::string&>());
      seconds.push_back(found == stretch.seconds.end() ? 0 : rounded_for_chart(found->second));
    }
    rows.push_back({rounded_for_chart(stretch.begin.seconds), stretch.begin.step,
                    rounded_for_chart(stretch.end.seconds), stretch.end.step, seconds});
  }
  return rows;
}

/// When the trace of the last process began, on the charts' axis of time; empty: there is none.
std::optional<double> trace_begin(const Run& run) {
  const std::optional<double> begin = number_at(run.result, "trace/begin");
  if (!begin || run.session_started <= 0) return {};
  return run.session_begin + *begin - run.session_started;
}

Json worst_json(const Run& run, const AccountSeries& account) {
  Json rows = Json::array();
  const std::optional<double> trace = trace_begin(run);
  for (const WorstStretch& w : worst(account.stretches(), kWorst)) {
    rows.push_back({{"begin", rounded_for_chart(w.stretch->begin.seconds)},
                    {"end", rounded_for_chart(w.stretch->end.seconds)},
                    {"first_step", w.stretch->begin.step},
                    {"last_step", w.stretch->end.step},
                    {"cause", w.cause},
                    {"share", rounded_for_chart(w.share)},
                    {"seconds", rounded_for_chart(w.share * w.stretch->wall())}});
    if (trace && w.stretch->begin.seconds >= run.session_begin)
      rows.back()["in_trace"] = {std::max(0.0, w.stretch->begin.seconds - *trace),
                                 std::max(0.0, w.stretch->end.seconds - *trace)};
  }
  return rows;
}

Json accounts_of(const Run& run, size_t limit) {
  Json accounts = Json::array();
  for (const auto& [device, total] : final_accounts(run)) {
    std::vector<std::pair<std::string, double>> order(total.begin(), total.end());
    std::ranges::stable_sort(order,
                             [](const auto& a, const auto& b) { return a.second > b.second; });
    Json causes = Json::array(), seconds = Json::array();
    for (const auto& [cause, taken] : order) {
      causes.push_back(cause);
      seconds.push_back(rounded_for_chart(taken));
    }
    Json entry = {{"device", device}, {"causes", causes}, {"seconds", seconds}};
    if (const auto series = run.accounts.find(device); series != run.accounts.end()) {
      entry["stretches"] = stretches_json(series->second, causes, limit);
      entry["worst"] = worst_json(run, series->second);
    }
    accounts.push_back(entry);
  }
  return accounts;
}

/// What is too large to be looked at is left out.
Json result_json(const nlohmann::json& result) {
  constexpr size_t kMostClasses = 50;  // of a matrix
  Json json = selected(result, kResultKeys);
  if (json.contains("confusion") && json["confusion"].size() > kMostClasses)
    json.erase("confusion");
  return json;
}

Json counts_json(const LineCounts& counts) {
  return {{"good", counts.good},
          {"bad", counts.bad},
          {"left_out", counts.left_out},
          {"cut", counts.cut}};
}

/// What the folder is called, and its path where two have one name.
std::string name_of(const std::vector<Run>& runs, const Run& run) {
  const auto base = [](std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path.substr(path.find_last_of('/') + 1);
  };
  const auto same = std::ranges::count_if(
      runs, [&](const Run& other) { return base(other.folder) == base(run.folder); });
  return same > 1 || base(run.folder).empty() ? run.folder : base(run.folder);
}

}  // namespace

Json model_of(const std::vector<Run>& runs) {
  size_t lines = 0, accounts = 0;
  for (const Run& run : runs) {
    lines += run.charts.lines().size();
    accounts += run.accounts.size();
  }
  const size_t points = share_of(kAllPoints, lines, kMinPoints, kMaxPoints);
  const size_t stretches = share_of(kAllStretches, accounts, kMinStretches, kMaxStretches);
  Json model = {{"runs", Json::array()}, {"comparison", comparison(runs)}};
  for (const Run& run : runs) {
    Json energy = Json::object();
    for (const auto& [device, joule] : run.energy) energy[device] = rounded_for_chart(joule);
    model["runs"].push_back({{"name", name_of(runs, run)},
                             {"folder", run.folder},
                             {"sessions", run.sessions},
                             {"images", run.images},
                             {"result", result_json(run.result)},
                             {"last", selected(run.last, kLastKeys)},
                             {"bad_result", run.bad_result},
                             {"old_result", run.old_result},
                             {"history", counts_json(run.history)},
                             {"monitor", counts_json(run.monitor)},
                             {"energy", energy},
                             {"trace", text_at(run.result, "trace/file")},
                             {"lines", lines_of(run.charts, points)},
                             {"accounts", accounts_of(run, stretches)},
                             {"ops", operations_of(run.result)},
                             {"plan", plan_of(run.result)},
                             {"compression", compression_of(run.result)},
                             {"most_wrong", run.most_wrong}});
  }
  return model;
}

}  // namespace brim::command::page
