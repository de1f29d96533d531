// What brim writes into the metadata of its weights files.
#pragma once

#include <brim/io/safetensors.h>
#include <brim/train/weights.h>

namespace brim::train {

/// What is known, and "format": "pt", which other readers look for.
io::Metadata weights_metadata(const WeightsInfo& info);

}  // namespace brim::train
