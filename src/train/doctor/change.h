// Something that may make a training faster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <brim/diag/account.h>

namespace brim::train {

/// What a change does to the weights.
enum class Effect : uint8_t {
  none,      ///< not a bit
  rounding,  ///< sums in another order
  learning,  ///< another training, of which it is to be seen whether it learns as much
};

template <class Setting>
struct Change {
  std::string what;     ///< "4 loader workers"
  std::string options;  ///< how it is asked for: "--workers 4"
  Setting after;
  std::vector<diag::Cause> causes;  ///< that it may lessen
  Effect effect = Effect::none;
};

}  // namespace brim::train
