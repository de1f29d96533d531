// What each rank of a run did, side by side.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include <brim/dist/process_group.h>
#include <brim/train/trainer.h>

namespace brim::command {

struct RankRow {
  int rank = 0;
  std::string host, device;
  double us_per_step = 0;
  double compute = 0, communication = 0, input = 0;  ///< shares of the training's time
  int64_t peak_memory = 0;                           ///< bytes of the device
};

/// Of all ranks, in each of them. Throws DistError.
std::vector<RankRow> gather_rows(dist::ProcessGroup& group, Device device,
                                 const train::TrainResult& result);
/// A line for each, and which one is the slowest.
std::string rows_table(const std::vector<RankRow>& rows);
nlohmann::ordered_json rows_json(const std::vector<RankRow>& rows);
/// Least, median and most of each figure, and the slowest rank.
nlohmann::ordered_json summary_json(const std::vector<RankRow>& rows);

}  // namespace brim::command
