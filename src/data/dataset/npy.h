// One array in NumPy's format.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <brim/core/dtype.h>
#include <brim/core/shape.h>

namespace brim::data {

struct NpyArray {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const uint8_t> data;  // row-major, little-endian; need not be aligned
};

/// Reads the header of versions 1 to 3, and checks that the data are there. `name` begins the
/// errors. Throws FileError.
NpyArray read_npy(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace brim::data
