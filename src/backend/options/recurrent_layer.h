// What the kernels of a whole recurrent layer are told.
#pragma once

#include <cstdint>

namespace brim::backend {

enum class RecurrentCell : uint8_t { lstm, gru };

/// One layer in one direction, from the first step to the last.
struct RecurrentLayer {
  RecurrentCell cell;
  bool bias;  // two of them, of the input and of the hidden state
  bool tf32;  // f32 may be multiplied as TF32
  bool grad;  // what the gradient needs is kept
  int64_t steps, batch, in, hidden;

  int64_t gates() const { return cell == RecurrentCell::lstm ? 4 : 3; }
  friend bool operator==(const RecurrentLayer&, const RecurrentLayer&) = default;
};

}  // namespace brim::backend
