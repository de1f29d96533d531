// The choices behind RandomResizedCrop.
#pragma once

#include <brim/data/transform.h>

#include "data/image/box.h"
#include "data/keyed.h"

namespace brim::data {

/// The part of a width x height picture, drawn as torchvision draws it: ten tries, then the largest
/// part in the middle whose shape is allowed.
Box choose_part(const RandomResizedCrop& step, int width, int height, KeyedRandom& random);

/// At how many eighths of its size a JPEG should be decoded for `part`: the fewest that leave the
/// part no smaller than the result, of those that libjpeg-turbo has vector code for (1, 2, 4, 8; at
/// 5 to 7 eighths it takes longer than at 8).
int choose_eighths(const RandomResizedCrop& step, const Box& part);

}  // namespace brim::data
