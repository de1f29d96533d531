// The points of Winograd's F(4 x 4, 3 x 3): 0, +-a, +-b and infinity; a = 5/8 and b = 3/2 round
// less than the usual 1 and 2.
#pragma once

namespace brim::formula::winograd {

inline constexpr float kA = 0.625F, kB = 1.5F, kA2 = kA * kA, kB2 = kB * kB;
// What weights are divided by: the products of a point's distances to the others.
inline constexpr float kN0 = kA2 * kB2, kNa = 2 * kA2 * (kA2 - kB2), kNb = 2 * kB2 * (kB2 - kA2);

}  // namespace brim::formula::winograd
