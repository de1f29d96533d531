// What a checkpoint keeps of a loader, and text as tensors.
#pragma once

#include <string>

#include <brim/core/state_dict.h>
#include <brim/data/loader.h>
#include <brim/train/checkpoint.h>

namespace brim::train {

/// Bytes, as a value without a name.
StateDict text_state(const std::string& text);
/// Throws ValueError for what is no text.
std::string text_of(const Tensor& text);

/// What a loader's order and batches depend on, but for its rank; of iterable data, where it is.
/// Throws ValueError where that has no state.
StateDict loader_state(const data::Loader& loader, const LoopPosition& at);
/// Throws ValueError where the loader is another one and `at` lies amid an epoch.
void load_loader(const data::Loader& loader, const LoopPosition& at, const StateDict& saved);

}  // namespace brim::train
