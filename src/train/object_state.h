// What saves and loads an object that has a state dict.
#pragma once

#include <brim/train/checkpoint.h>

namespace brim::train {

template <class T>
Checkpoint::State state_of(T& object) {
  return {.save = [&object] { return object.state_dict(); },
          .load = [&object](const StateDict& state) { object.load_state_dict(state); }};
}

}  // namespace brim::train
