// The phases of a run, from the start of the process on: they add up to its wall time.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace brim::command {

class RunPhases {
 public:
  /// What went on since the end of the last phase, or the process's start, was `name`. A name may
  /// come again: its times add up.
  void end(const std::string& name);
  /// So many seconds of phase `from` were `to`.
  void move(const std::string& from, const std::string& to, double seconds);

  /// Seconds until the end of the last phase.
  double wall() const { return at_; }
  /// "the run took 3.1 s: start 0.1, train 2.5, ...", without those that took no 0.05 s.
  std::string line() const;
  /// Seconds by name, and "wall".
  nlohmann::ordered_json json() const;

 private:
  double& of(const std::string& name);

  std::vector<std::pair<std::string, double>> phases_;
  double at_ = 0;
};

}  // namespace brim::command
