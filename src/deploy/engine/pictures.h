// Pictures as a camera gives them instead of a network's first input: what prepares them, and
// samples of them.
#pragma once

#include <brim/core/random.h>
#include <brim/deploy/engine.h>

#include "deploy/engine/network.h"

namespace brim::deploy {

/// `input`: the network's, (N, C, H, W). Throws ValueError where the pictures do not become that.
void check_pictures(const EnginePictures& pictures, const Tensor& input);

/// Input 0 becomes pictures, u8 (N, height, width, C), which the first node prepares: a "Picture"
/// of a table and, where pixels move, weights of rows and of columns. After check_pictures().
void read_pictures(EngineNetwork& network, const EnginePictures& pictures);

/// Pictures with edges and noise, u8 (samples, height, width, channels).
Tensor sample_pictures(const EnginePictures& pictures, int64_t channels, int64_t samples,
                       Generator& random);

/// What the network reads of such pictures, as data::to_tensor() computes it.
Tensor prepared(const EnginePictures& pictures, const Tensor& samples);

}  // namespace brim::deploy
