// Folders of trainings as `brim train --out` leaves them, made without training.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace brim::tests {

/// Of `brim prune`.
inline constexpr const char* kPruned = R"({"command": "prune", "recipe": "mlp", "seconds": 2,
  "dense": {"loss": 0.5, "metrics": {"accuracy": 0.75}}, "pruned": null,
  "fine_tuned": {"loss": 0.625, "metrics": {"accuracy": 0.5},
                 "accuracy_difference": {"mean": -0.25, "low": -0.5, "high": 0}},
  "layers": [{"name": "a", "shape": "[8, 4]", "sparsity": 0.75, "dense_because": null},
             {"name": "b", "shape": "[8, 4]", "pruned_shape": "[8, 2]", "dense_because": "its channels are in groups"},
             {"name": "c", "shape": "[8, 4]", "f32_because": "slower in integers: 2.5 us, f32 1.5 us"},
             {"name": "d", "shape": "[8, 4]", "f32_because": null, "error": 0.25, "density": 0.25}],
  "times": [{"batch": 1, "dense_s": 2, "sparse_s": 1}]})";

struct MadeRun {
  std::string recipe = "tutorial-cnn", device = "cuda:0";
  int reports = 40;
  int steps_each = 100;
  int sessions = 1;  ///< processes; each but the first was resumed
  double input_share = .1;
  double rate = 3000;
  bool result = true;
  int readings = 60;  ///< of the sensors; 0: no monitor.jsonl
};

/// A line of history.jsonl: report `i` of process `session`.
inline nlohmann::json history_line(const MadeRun& run, int session, int i) {
  const double seconds = 2.0 * (i + 1), all = run.reports * session + i + 1;
  // In one stretch of each process the loader was slow.
  const double slow = i >= run.reports / 2 ? 1.5 : 0;
  const double input = run.input_share * seconds + slow;
  return {{"schema", "brim.run/1"},
          {"time", 1790000000.0 + 5000 * session + seconds},
          {"started", 1790000000.0 + 5000 * session},
          {"pid", 100 + session},
          {"hostname", "host"},
          {"recipe", run.recipe},
          {"task", "classification"},
          {"data", "cifar10"},
          {"batch", 4},
          {"precision", "fp32"},
          {"state", "training"},
          {"epoch", 0},
          {"epochs", 2},
          {"step", run.steps_each * (i + 1)},
          {"steps", run.steps_each * run.reports},
          {"steps_before", run.steps_each * run.reports * session},
          {"images", 4 * run.steps_each * (i + 1)},
          {"images_per_s", run.rate + 100 * std::sin(all)},
          {"loss", 2.3 * std::exp(-all / 30)},
          {"learning_rate", 0.001 / (1 + all / 100)},
          {"validation",
           i < 10 ? nlohmann::json()
                  : nlohmann::json{{"epoch", i / 10},
                                   {"loss", 2.4 * std::exp(-(i / 10) / 3.0)},
                                   {"metrics", {{"accuracy", 0.9 - 0.6 / (1 + i / 10)}}}}},
          {"devices",
           {{{"device", run.device},
             {"account",
              {{"wall", seconds + slow},
               {"seconds", {{"compute", seconds - run.input_share * seconds}, {"input", input}}}}},
             {"memory", {{"live", 40000000 + 100 * i}, {"peak", 50000000}}},
             {"energy_j", 250 * seconds}}}}};
}

inline nlohmann::json monitor_line(const MadeRun& run, int i) {
  return {{"seconds", 0.5 * i},
          {"host",
           {{"load", 0.5 + 0.3 * std::sin(i / 5.0)},
            {"core_load", {0.5, 0.6}},
            {"process_cores", 1.5},
            {"resident", 300000000 + 1000 * i}}},
          {run.device,
           {{"utilisation", 0.9},
            {"sm_active", nullptr},
            {"memory_used", 2000000000},
            {"power_w", 250 + 30 * std::sin(i / 3.0)},
            {"temperature_c", 60 + 5 * std::sin(i / 50.0)},
            {"sm_clock_mhz", 1700}}}};
}

inline nlohmann::json run_result(const MadeRun& run) {
  return {
      {"recipe", run.recipe},
      {"data", "cifar10"},
      {"device", run.device},
      {"precision", "fp32"},
      {"images_per_s", run.rate},
      {"us_per_step", 4e6 / run.rate},
      {"steps", run.steps_each * run.reports},
      {"total_steps", run.steps_each * run.reports * run.sessions},
      {"total_images", 4 * run.steps_each * run.reports * run.sessions},
      {"epochs", 2},
      {"batch", 4},
      {"final_loss", 0.6},
      {"task", "classification"},
      {"accuracy", 0.61},
      {"metrics", {{"accuracy", 0.61}}},
      {"per_class", {{"cat", 0.45}, {"dog", 0.55}, {"ship", 0.8}}},
      {"test_loss", 0.9},
      {"accounts", {{run.device, {{"compute", 1 - run.input_share}, {"input", run.input_share}}}}},
      {"seed", 1},
      {"peak_memory", 50000000},
      {"seconds", 2.0 * run.reports},
      {"loader",
       {{"workers", 2},
        {"slots", 8},
        {"worker_seconds", {{"sum", {{"decode", 12.5}, {"idle", 40.0}}}}},
        {"decisions", {"2 workers instead of 1: the device waited for input"}}}},
      {"skipped", 0},
      {"checkpoint_failures", 1},
      {"stopped", false},
      {"versions", {{"brim", "0.1.0"}, {"compiler", "gcc 12.2.0"}}}};
}

/// Makes the folder with its files.
inline void make_run(const std::string& folder, const MadeRun& run = {}) {
  std::filesystem::create_directories(folder);
  if (run.reports > 0) {
    std::ofstream history(folder + "/history.jsonl");
    for (int session = 0; session < run.sessions; ++session)
      for (int i = 0; i < run.reports; ++i) history << history_line(run, session, i) << "\n";
  }
  if (run.readings > 0) {
    std::ofstream monitor(folder + "/monitor.jsonl");
    for (int i = 0; i < run.readings; ++i) monitor << monitor_line(run, i) << "\n";
  }
  if (run.result) std::ofstream(folder + "/result.json") << run_result(run).dump(2) << "\n";
}

/// The data of a page, as its script reads it.
inline nlohmann::json data_of(const std::string& html) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t at = html.find(begin) + begin.size();
  return nlohmann::json::parse(html.substr(at, html.find("</script>", at) - at));
}

}  // namespace brim::tests
