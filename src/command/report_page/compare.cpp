#include "command/report_page/compare.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "command/report_page/json_values.h"

namespace brim::command::page {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::vector<std::optional<double>>;

/// What the result says, or else the last line of the history.
std::optional<double> fact(const Run& run, const char* result, const char* last) {
  const std::optional<double> value = number_at(run.result, result);
  return value ? value : number_at(run.last, last);
}

/// Equal for runs that do the same, so that their differences are chance.
std::string setting_of(const Run& run) {
  std::string setting;
  for (const char* key : {"recipe", "data", "precision", "device"})
    setting += text_at(run.result, key) + "\n" + text_at(run.last, key) + "\n";
  for (const char* key : {"batch", "steps"})
    setting += std::to_string(fact(run, key, key).value_or(0)) + "\n";
  return setting;
}

std::optional<double> spread(const std::vector<Run>& runs, const Values& values) {
  std::map<std::string, std::vector<double>> groups;
  for (size_t i = 0; i < runs.size(); ++i)
    if (values[i]) groups[setting_of(runs[i])].push_back(*values[i]);
  std::optional<double> widest;
  for (const auto& [setting, group] : groups) {
    if (group.size() < 2) continue;
    double sum = 0;
    for (const double value : group) sum += value;
    const auto [low, high] = std::ranges::minmax(group);
    const double mean = std::abs(sum) / static_cast<double>(group.size());
    if (mean > 0) widest = std::max(widest.value_or(0), (high - low) / mean);
  }
  return widest;
}

Json row_of(const std::string& key, const std::vector<Run>& runs, const Values& values) {
  Json row = {{"key", key}, {"values", Json::array()}, {"differences", Json::array()}};
  const std::optional<double> first = values.front();
  for (const std::optional<double>& value : values) {
    row["values"].push_back(value ? Json(rounded_for_chart(*value)) : Json(nullptr));
    const bool comparable = value && first && *first != 0;
    row["differences"].push_back(
        comparable ? Json(rounded_for_chart((*value - *first) / std::abs(*first))) : Json(nullptr));
  }
  const std::optional<double> widest = spread(runs, values);
  row["spread"] = widest ? Json(rounded_for_chart(*widest)) : Json(nullptr);
  return row;
}

/// The mean over the devices, by cause.
std::map<std::string, double> mean_account(const Run& run) {
  const auto accounts = final_accounts(run);
  std::map<std::string, double> mean;
  for (const auto& [device, causes] : accounts)
    for (const auto& [cause, seconds] : causes)
      mean[cause] += seconds / static_cast<double>(accounts.size());
  return mean;
}

}  // namespace

std::map<std::string, std::map<std::string, double>> final_accounts(const Run& run) {
  std::map<std::string, std::map<std::string, double>> accounts;
  for (const auto& [device, series] : run.accounts)
    if (auto total = series.total(); !total.empty()) accounts[device] = std::move(total);
  const nlohmann::json* given = find(run.result, "accounts");
  const std::optional<double> wall = number_at(run.result, "seconds");
  if (!accounts.empty() || !wall || !given || !given->is_object()) return accounts;
  for (const auto& [device, causes] : given->items()) {
    if (!causes.is_object()) continue;
    for (const auto& [name, share] : causes.items()) {
      std::string cause = label_of(name);
      std::replace(cause.begin(), cause.end(), '_', ' ');
      const std::optional<double> fraction = finite_number(&share);
      if (fraction && *fraction > 0) accounts[label_of(device)][cause] = *fraction * *wall;
    }
  }
  return accounts;
}

Json comparison(const std::vector<Run>& runs) {
  Json rows = Json::array();
  if (runs.size() < 2) return rows;
  struct Row {
    const char *key, *result, *last;
  };
  for (const Row& row :
       {Row{"rate", "images_per_s", "images_per_s"}, Row{"median_step", "us_per_step", ""},
        Row{"final_loss", "final_loss", "loss"},
        Row{"accuracy", "accuracy", "validation/metrics/accuracy"},
        Row{"duration", "seconds", ""}}) {
    Values values;
    for (const Run& run : runs) values.push_back(fact(run, row.result, row.last));
    if (std::ranges::any_of(values, [](const auto& value) { return value.has_value(); }))
      rows.push_back(row_of(row.key, runs, values));
  }
  std::vector<std::map<std::string, double>> accounts;
  std::set<std::string> causes;
  for (const Run& run : runs) {
    accounts.push_back(mean_account(run));
    for (const auto& [cause, seconds] : accounts.back()) causes.insert(cause);
  }
  for (const std::string& cause : causes) {
    Values values;
    for (const auto& account : accounts) {
      const auto found = account.find(cause);
      values.push_back(account.empty() ? std::nullopt
                                       : std::optional(found == account.end() ? 0 : found->second));
    }
    rows.push_back(row_of("cause", runs, values));
    rows.back()["cause"] = cause;
  }
  return rows;
}

}  // namespace brim::command::page
