// How cuDNN is told of tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include <brim/core/dtype.h>
#include <brim/core/shape.h>

#include "backend/cuda/libraries/cudnn_library.h"

namespace brim::cuda::dnn {

inline cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

/// The factors that results are blended with: of the new one, and of what stood there. Doubles for
/// f64, else floats.
inline const void* one(DType dtype) {
  static constexpr float f32_one = 1;
  static constexpr double f64_one = 1;
  return dtype == DType::f64 ? static_cast<const void*>(&f64_one) : &f32_one;
}
inline const void* zero(DType dtype) {
  static constexpr float f32_zero = 0;
  static constexpr double f64_zero = 0;
  return dtype == DType::f64 ? static_cast<const void*>(&f64_zero) : &f32_zero;
}

/// Whether cuDNN, which counts in int, can be told of these numbers.
inline bool are_ints(std::initializer_list<int64_t> numbers) {
  return std::ranges::all_of(numbers, [](int64_t number) { return number <= INT32_MAX; });
}

/// (n, c, h, w) elements, row-major or nhwc.
inline TensorDesc tensor(DType dtype, const Shape& s, bool nhwc) {
  cudnnTensorDescriptor_t made = nullptr;
  check(library().create_tensor(&made), "cudnnCreateTensorDescriptor");
  TensorDesc result(made);
  const auto n = static_cast<int>(s[0]), c = static_cast<int>(s[1]), h = static_cast<int>(s[2]),
             w = static_cast<int>(s[3]);
  const cudnnDataType_t type = type_of(dtype);
  check(nhwc ? library().set_tensor(made, type, n, c, h, w, h * w * c, 1, w * c, c)
             : library().set_tensor(made, type, n, c, h, w, c * h * w, h * w, w, 1),
        "cudnnSetTensor4dDescriptorEx");
  return result;
}

}  // namespace brim::cuda::dnn
