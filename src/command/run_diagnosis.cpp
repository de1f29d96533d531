#include "command/run_diagnosis.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "command/cause_named.h"
#include "command/report_page/run.h"
#include "core/check.h"
#include "train/doctor/estimate.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

constexpr size_t kLeast = 3;  // stretches; fewer have no interval worth the name

}  // namespace

bool is_run(const std::string& path) {
  // A built-in recipe's name means the recipe, whatever lies here under that name.
  const std::vector<std::string> recipes = train::recipe_names();
  if (std::ranges::find(recipes, path) != recipes.end()) return false;
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(path) / train::kHistoryFile, ignored);
}

RunDiagnosis diagnose_run(const std::string& folder, double least_share) {
  const page::Run run = page::read_run(folder);
  RunDiagnosis found;
  std::vector<train::Measured> stretches;
  if (!run.accounts.empty()) {
    const auto& [device, account] = *run.accounts.begin();
    found.device = device;
    for (const page::Stretch& stretch : account.stretches()) {
      train::Measured& m = stretches.emplace_back();
      m.steps = std::max(stretch.end.step - stretch.begin.step, 0.0);  // 0 where a resume went back
      m.account.wall = stretch.wall();
      found.seconds += m.account.wall;
      for (const auto& [text, seconds] : stretch.seconds)
        if (const auto cause = cause_named(text))
          m.account.seconds[static_cast<size_t>(*cause)] = seconds;
    }
  }
  const bool has_steps =
      std::ranges::any_of(stretches, [](const train::Measured& m) { return m.steps > 0; });
  BRIM_CHECK(stretches.size() >= kLeast && has_steps, FileError,
             "[doctor] {}: its history has {} reports that tell of time, and {} are the least to "
             "say anything; train for longer (there are ten an epoch), or give the recipe",
             folder, stretches.size(), kLeast);
  found.diagnosis = train::diagnosis_of(stretches, least_share);
  return found;
}

}  // namespace brim::command
