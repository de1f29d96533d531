// What `brim bench` can time. bench/compare_torch.py has the same work in PyTorch under the same
// names.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace brim::cli {

struct BenchCase {
  std::string name;
  std::string about;
  /// Makes the data and returns the step.
  std::function<std::function<void()>()> make;
};

/// Training steps of whole networks, then single ops.
std::vector<BenchCase> training_cases();
std::vector<BenchCase> op_cases();

}  // namespace brim::cli
