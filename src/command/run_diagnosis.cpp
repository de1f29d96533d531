#include "command/run_diagnosis.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "command/report_page/run.h"
#include "core/check.h"
#include "train/doctor/estimate.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

constexpr size_t kLeast = 3;   // stretches; fewer have no interval worth the name
constexpr size_t kMost = 100;  // neighbours are added up

/// Of the stretches, those that are long enough to say something.
std::vector<page::Stretch> long_ones(const std::vector<page::Stretch>& all) {
  double longest = 0;
  for (const page::Stretch& stretch : all) longest = std::max(longest, stretch.wall());
  std::vector<page::Stretch> kept;
  for (const page::Stretch& stretch : all)
    if (stretch.wall() >= 0.2 * longest && stretch.end.step > stretch.begin.step)
      kept.push_back(stretch);
  return page::merged(kept, kMost);
}

std::optional<diag::Cause> cause_of(const std::string& text) {
  for (int i = 0; i < diag::kCauseCount; ++i)
    if (diag::name(static_cast<diag::Cause>(i)) == text) return static_cast<diag::Cause>(i);
  return {};
}

}  // namespace

bool is_run(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) &&
         std::filesystem::exists(std::filesystem::path(path) / train::kHistoryFile, ignored);
}

RunDiagnosis diagnose_run(const std::string& folder, double least_share) {
  const page::Run run = page::read_run(folder);
  RunDiagnosis found;
  if (!run.accounts.empty()) found.device = run.accounts.begin()->first;
  const std::vector<page::Stretch> stretches =
      run.accounts.empty() ? std::vector<page::Stretch>()
                           : long_ones(run.accounts.begin()->second.stretches());
  BRIM_CHECK(stretches.size() >= kLeast, FileError,
             "[doctor] {}: its history has {} reports that tell of time, and {} are the least to "
             "say anything; train for longer (there are ten an epoch), or give the recipe",
             folder, stretches.size(), kLeast);
  std::vector<double> seconds_per_step;
  std::vector<std::vector<double>> shares(diag::kCauseCount);
  for (const page::Stretch& stretch : stretches) {
    const double wall = stretch.wall();
    found.seconds += wall;
    seconds_per_step.push_back(wall / (stretch.end.step - stretch.begin.step));
    for (std::vector<double>& of_cause : shares) of_cause.push_back(0);
    for (const auto& [text, seconds] : stretch.seconds)
      if (const auto cause = cause_of(text))
        shares[static_cast<size_t>(*cause)].back() = seconds / wall;
  }
  found.diagnosis = train::diagnosis_of(seconds_per_step, shares, least_share);
  return found;
}

}  // namespace brim::command
