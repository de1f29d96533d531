// What others see of a run with several trainings.
#include "command/run_document.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command/run_metrics.h"
#include "train/status_board.h"

namespace brim::command {
namespace {

/// Publishes what a training does after so many steps of a second each.
void publish(train::StatusBoard& board, int64_t step) {
  train::RankStatus status;
  status.updated = 1;
  status.progress.step = step;
  status.progress.steps = 100;
  status.progress.images = 4 * step;
  status.checkpoints = 1;
  status.device.device = Device::cpu();
  status.device.account.wall = static_cast<double>(step);
  status.device.account.seconds[static_cast<size_t>(diag::Cause::compute)] =
      static_cast<double>(step);
  board.rank(0).status.write(status);
}

TEST(RunDocument, CountsThroughSeveralTrainings) {
  train::StatusBoard board({Device::cpu()});
  RunDocument document({.command = "shrink", .recipe = {}, .folder = ""}, board);
  document.begin_training();
  EXPECT_EQ(document.json()["point"], nullptr);
  publish(board, 10);
  document.begin_training();
  const auto between = document.json();
  EXPECT_EQ(between["step"], 0);
  EXPECT_EQ(between["steps_before"], 10);
  EXPECT_EQ(between["images"], 40);
  EXPECT_EQ(between["devices"][0]["account"]["wall"], 10);
  EXPECT_EQ(between["loss"], nullptr);
  document.set_point(2, 5);
  publish(board, 5);
  document.begin_training();
  publish(board, 1);
  const auto last = document.json();
  EXPECT_EQ(last["command"], "shrink");
  EXPECT_EQ(last["step"], 1);
  EXPECT_EQ(last["steps_before"], 15);
  EXPECT_EQ(last["images"], 64);
  EXPECT_EQ(last["checkpoints"], 3);
  EXPECT_EQ(last["devices"][0]["account"]["seconds"]["compute"], 16);
  EXPECT_EQ(last["point"], 2);
  EXPECT_EQ(last["points"], 5);

  const std::string page = RunMetrics(document).page(MetricsFormat::prometheus);
  for (const char* line :
       {"brim_steps_total{recipe=\"\",rank=\"0\"} 16\n",
        "brim_samples_total{recipe=\"\",rank=\"0\"} 64\n", "cause=\"compute\"} 16\n",
        "brim_search_point{recipe=\"\",rank=\"0\"} 2\n"})
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
}

TEST(RunDocument, OldReadingsAreNotShownAsNew) {
  train::StatusBoard board({Device::cpu()});
  RunDocument document({.recipe = {}, .folder = ""}, board);
  diag::Reading reading{.seconds = 1};
  reading.gpus = {{Device::sim(0), {.utilisation = 0.5}}};
  document.set_reading(reading);
  EXPECT_EQ(document.json()["gpus"]["sim:0"]["utilisation"], 0.5);
  reading.seconds = 2;
  document.set_reading(reading, steady_seconds() - 60);  // as of a driver that hangs since
  EXPECT_EQ(document.json()["gpus"], nlohmann::ordered_json::object());
  EXPECT_EQ(document.json()["host"], nullptr);
  reading.seconds = 32;  // a reading each half a minute
  document.set_reading(reading, steady_seconds() - 60);
  EXPECT_EQ(document.json()["gpus"]["sim:0"]["utilisation"], 0.5);
}

TEST(RunDocument, StepsBeforeAResumeStayBeforeTheNextTraining) {
  train::StatusBoard board({Device::cpu()});
  RunDocument document({.command = "shrink", .recipe = {}, .folder = ""}, board);
  const auto expect = [&](int64_t step, int64_t steps_before, int64_t of_process) {
    EXPECT_EQ(document.json()["step"], step);
    EXPECT_EQ(document.json()["steps_before"], steps_before);
    EXPECT_EQ(document.counts().steps, of_process);
  };
  document.set_earlier_steps(200);
  document.begin_training();
  document.set_steps_before(50);
  publish(board, 10);
  expect(10, 250, 10);
  document.begin_training();
  expect(0, 260, 10);
  publish(board, 1);
  expect(1, 260, 11);
}

}  // namespace
}  // namespace brim::command
