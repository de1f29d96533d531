// Results as text for people and as JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include <brim/train/trainer.h>

namespace brim::command {

/// The metrics of a split (test, train, all) in a line, and what was counted by class.
std::string evaluation_table(const train::Evaluation& evaluation, const std::string& split);
/// "accuracy 61.35 %, rmse 1.2042".
std::string metrics_line(const train::Evaluation& evaluation);
/// " (3 corrupt ones left out)", or nothing.
std::string left_out(const train::Evaluation& evaluation);

/// Its number where no metric counts by class.
std::string class_name(const train::Evaluation& evaluation, int64_t number);

/// {"samples": .., "loss": .., "metrics": {"accuracy": ..}, "classes": ["cat", ..], "per_class":
/// {"cat": ..}, "most_wrong": [{"sample", "class", "predicted", "probability", "loss"}, ..],
/// "confusion": [[..], ..] or null}
nlohmann::ordered_json to_json(const train::Evaluation& evaluation);
/// Null for what is NaN or infinite.
nlohmann::ordered_json finite(double value);
/// {"compute": 0.93, ...}: fractions of the wall time that add up to 1.
nlohmann::ordered_json to_json(const diag::Account& account);

nlohmann::ordered_json to_json(const CompileStats& stats);
/// Seconds by part: "sum" over the workers, and "each" of them.
nlohmann::ordered_json to_json(const data::WorkerAccount& worker);  ///< seconds
nlohmann::ordered_json to_json(const std::vector<data::WorkerAccount>& workers);
/// "compiled: 40 launches became 14" or "eagerly: why".
std::string how_steps_ran(const CompileStats& stats);

/// Writes the object to a file, atomically, or to standard output for "-". Throws FileError.
void write_json(const nlohmann::ordered_json& json, const std::string& path);

/// Throws FileError now if `path`, given to --`option`, could not be written later. "" is good.
void check_output_path(const char* option, const std::string& path);
/// The same for --json, where "-" is good too.
void check_json_path(const std::string& path);

/// A path on the command line, and how messages call it: "--json", "the weights".
struct NamedPath {
  std::string name, path;
};
/// Throws UsageError if an output would replace another one, or one of the inputs. "" is none.
void check_outputs(const std::vector<NamedPath>& outputs, const std::vector<NamedPath>& inputs);
/// Throws UsageError if an output would take a name of what a run keeps in `folder`; events of
/// "--tensorboard" may lie in that folder itself. "" is none.
void check_beside_run(const std::vector<NamedPath>& outputs, const std::string& folder);

/// Whether the JSON goes to standard output, which then carries nothing else: "-" or "/dev/stdout".
bool is_stdout(const std::string& path);

}  // namespace brim::command
