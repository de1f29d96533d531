#include "command/report_page/account_series.h"

#include <algorithm>

#include "command/report_page/json_values.h"

namespace brim::command::page {
namespace {

constexpr size_t kMaxCauses = 40;
/// Reports; of more than these, neighbours become one.
constexpr size_t kMaxReports = 100000;
/// A clock's rounding; what is smaller is no step backwards of an account.
constexpr double kBackwards = 1e-6;

std::map<std::string, double> causes_of(const nlohmann::json& account) {
  std::map<std::string, double> seconds;
  const nlohmann::json* entries = find(account, "seconds");
  if (!entries || !entries->is_object()) return seconds;
  for (const auto& [name, value] : entries->items()) {
    const std::optional<double> number = finite_number(&value);
    if (!number || *number < 0 || seconds.size() == kMaxCauses) continue;
    std::string cause = label_of(name);
    std::replace(cause.begin(), cause.end(), '_', ' ');
    seconds[cause] = *number;
  }
  return seconds;
}

}  // namespace

double Stretch::wall() const {
  double sum = 0;
  for (const auto& [cause, taken] : seconds) sum += taken;
  return sum;
}

void AccountSeries::add(const Point& begin, const Point& end, const nlohmann::json& account,
                        bool anew) {
  std::map<std::string, double> now = causes_of(account);
  if (now.empty()) return;
  // An account only grows; a smaller one is of another process.
  double sum = 0, before = 0;
  for (const auto& [cause, seconds] : now) sum += seconds;
  for (const auto& [cause, seconds] : last_) before += seconds;
  if (anew || sum + kBackwards < before) last_.clear();
  Stretch stretch{begin, end, {}};
  for (const auto& [cause, seconds] : now) {
    const auto earlier = last_.find(cause);
    const double more = seconds - (earlier == last_.end() ? 0 : earlier->second);
    if (more > 0) stretch.seconds[cause] = more;
  }
  if (stretches_.size() == kMaxReports) stretches_ = merged(stretches_, kMaxReports / 2);
  if (stretch.wall() > 0) stretches_.push_back(std::move(stretch));
  last_ = std::move(now);
}

std::map<std::string, double> AccountSeries::total() const {
  std::map<std::string, double> sum;
  for (const Stretch& stretch : stretches_)
    for (const auto& [cause, seconds] : stretch.seconds) sum[cause] += seconds;
  return sum;
}

std::vector<Stretch> merged(const std::vector<Stretch>& stretches, size_t limit) {
  const size_t each = (stretches.size() + limit - 1) / std::max<size_t>(limit, 1);
  if (each <= 1) return stretches;
  std::vector<Stretch> result;
  for (size_t i = 0; i < stretches.size(); ++i) {
    if (i % each == 0) {
      result.push_back(stretches[i]);
      continue;
    }
    result.back().end = stretches[i].end;
    for (const auto& [cause, seconds] : stretches[i].seconds)
      result.back().seconds[cause] += seconds;
  }
  return result;
}

std::vector<WorstStretch> worst(const std::vector<Stretch>& stretches, size_t limit) {
  std::vector<WorstStretch> all;
  double sum = 0;
  for (const Stretch& stretch : stretches) sum += stretch.wall();
  // What lies between two reports that follow at once is no stretch that anybody could cure.
  const double least = 0.5 * sum / static_cast<double>(std::max<size_t>(stretches.size(), 1));
  for (const Stretch& stretch : stretches) {
    WorstStretch found{&stretch, "", 0};
    const double wall = stretch.wall();
    if (wall < least) continue;
    for (const auto& [cause, seconds] : stretch.seconds)
      if (cause != "compute" && seconds / wall > found.share) {
        found.cause = cause;
        found.share = seconds / wall;
      }
    if (!found.cause.empty()) all.push_back(found);
  }
  std::ranges::stable_sort(
      all, [](const WorstStretch& a, const WorstStretch& b) { return a.share > b.share; });
  if (all.size() > limit) all.resize(limit);
  return all;
}

}  // namespace brim::command::page
