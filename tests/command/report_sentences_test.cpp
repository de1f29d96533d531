// The English sentences that a training keeps, which the page of `brim report` has in Korean.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "command/reconciliation.h"
#include "command/report_page/embedded.h"
#include "data/loader/tuner.h"
#include "data/loader/worker_parts.h"
#include "train/doctor/changes.h"
#include "train/doctor/evidence.h"

namespace brim::command::page {
namespace {

using nlohmann::json;

const json& sentences() {
  static const json known = json::parse(texts())["ko"]["sentences"];
  return known;
}

void replace_all(std::string& text, std::string_view old, std::string_view now) {
  for (size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += now.size())
    text.replace(at, old.size(), now);
}

/// What of it stays English, read as translated() of tools.js reads it.
std::vector<std::string> untranslated(const std::string& sentence) {
  for (const auto& known : sentences().items()) {
    std::string pattern =
        std::regex_replace(known.key(), std::regex(R"([.*+?^$()|\[\]\\{}])"), R"(\$&)");
    replace_all(pattern, R"(\[s\])", "s?");
    replace_all(pattern, R"(\{\*\})", "(.+)");
    replace_all(pattern, R"(\{\})", "(?:\\S+)");
    replace_all(pattern, R"(\{text\})", "(?:.+)");
    std::smatch found;
    if (!std::regex_match(sentence, found, std::regex(pattern))) continue;
    std::vector<std::string> all;
    for (size_t i = 1; i < found.size(); ++i) {
      std::string parts = found[i].str() + ", ";
      for (size_t comma; (comma = parts.find(", ")) != std::string::npos; parts.erase(0, comma + 2))
        for (const std::string& part : untranslated(parts.substr(0, comma))) all.push_back(part);
    }
    return all;
  }
  return {sentence};
}

void expect_translated(const std::vector<std::string>& all) {
  for (const std::string& sentence : all)
    EXPECT_EQ(untranslated(sentence), std::vector<std::string>()) << sentence;
}

TEST(ReportSentences, HaveTheirValuesInOneOrder) {
  const auto marks = [](std::string text) {
    return std::regex_replace(text, std::regex(R"([^{]*(\{(?:\*|text)?\}|$))"), "$1");
  };
  EXPECT_EQ(marks("{*}, {} slots"), "{*}{}");
  for (const auto& known : sentences().items())
    EXPECT_EQ(marks(known.key()), marks(known.value().get<std::string>())) << known.key();
}

TEST(ReportSentences, HaveTheDoctorsReasons) {
  train::Evidence e{
      .workers =
          {.wall = 10, .read = 1, .decode = 4, .augment = 2, .slot = 1, .stolen = 1, .idle = 1},
      .worker_count = 1,
      .cpus = 4,
      .cores = 4,
      .other_cores = 1,
      .throttled = 1,
      .memory_pressure = 0.5,
      .io_pressure = 0.5,
      .storage = 5e6};
  const auto of = [&e](diag::Cause cause, double share) { return train::reasons(e, cause, share); };
  EXPECT_EQ(of(diag::Cause::input, 0.9).size(), 4U);
  expect_translated(of(diag::Cause::input, 0.9));
  EXPECT_EQ(of(diag::Cause::stolen, 0.5).size(), 4U);
  expect_translated(of(diag::Cause::stolen, 0.5));
  e.worker_count = 2;
  e.storage = 0;
  expect_translated(of(diag::Cause::input, 0.3));
  e.eager = "an op of the user's, read, idle";  // an error is shown as it came
  expect_translated(of(diag::Cause::dispatch, 0.3));
}

TEST(ReportSentences, HaveTheDoctorsChanges) {
  train::TrainSetting setting;
  setting.options.compile = false;
  setting.options.devices = {Device::sim(0)};
  setting.options.workers = 1;
  const train::ShortRun run{.seconds_per_step = 1e-4,
                            .workers = 1,
                            .samples = 1 << 20,
                            .augments_on_host = true,
                            .has_pictures = true};
  std::vector<std::string> changes;
  const auto propose = [&] {
    for (const auto& change : train::possible_changes(
             setting, run, {.allow_rounding = true, .allow_precision = true, .allow_batch = true}))
      changes.push_back(change.what);
  };
  propose();
  EXPECT_GE(changes.size(), 7U);
  setting.options.compile = true;
  setting.options.data_on_device = true;
  propose();
  EXPECT_GE(changes.size(), 9U);
  changes.push_back(train::workers_text(1));
  expect_translated(changes);
}

TEST(ReportSentences, HaveWhatTheLoadersTuningDecided) {
  std::vector<std::string> decisions;
  data::Tuner tuner({.workers = 1, .slots = 4}, {1, 4, 64},
                    [&](const std::string& line) { decisions.push_back(line); });
  const auto observe = [&](int64_t batches, double waited, double idle) {
    (void)tuner.observe({.batches = batches, .seconds = 1, .waited = waited, .idle = idle});
  };
  observe(100, 0.5, 0);  // more workers
  observe(50, 0.5, 0);   // back, and then more slots
  observe(100, 0.5, 0.9);
  observe(200, 0.5, 0);
  observe(300, 0, 1.9);  // fewer workers
  EXPECT_GE(decisions.size(), 3U);
  expect_translated(decisions);
  expect_translated({"2 workers, 8 slots to begin with: 4 CPUs, pictures to decode",
                     "1 worker, 8 slots to begin with: 4 CPUs, samples in memory"});
  for (const auto& [name, part] : data::kWorkerParts) expect_translated({name});
}

TEST(ReportSentences, HaveWhatDiffersAndWhy) {
  train::TrainResult result;
  std::vector<std::string> all;
  diag::MonitorSummary sensors;
  sensors.readings = 8;
  sensors.stretch = 4;
  sensors.mean.gpus = {{Device::cpu(), {}}};
  sensors.mean.gpus[0].second.energy = 9;
  sensors.power_joules = {5};
  const auto add = [&](double clock, double recorded, double stolen) {
    result.accounts = {{.device = Device::cpu(), .recorded = recorded}};
    diag::Account& account = result.accounts[0].account;
    account.seconds[static_cast<size_t>(diag::Cause::compute)] = 1;
    account.seconds[static_cast<size_t>(diag::Cause::stolen)] = stolen;
    result.clocks = {{.device = Device::cpu(), .seconds = clock, .worked = 5}};
    const auto json = reconciliation_json(result, sensors);
    for (const auto& entry : json["cpu"]) {
      all.push_back(entry["what"]);
      ASSERT_TRUE(entry["reason"].is_string()) << entry;
      all.push_back(entry["reason"]);
    }
  };
  add(0.01, 1, 0);
  add(9, 0.5, 0);
  add(9, 1, 0.5);
  EXPECT_EQ(all.size(), 18U);
  expect_translated(all);
}

}  // namespace
}  // namespace brim::command::page
