// Descriptors of the fake of libcudnn.so.9.
#pragma once

#include <cudnn.h>

#include <array>
#include <string>

#include "fakes/fake.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type{};
  std::array<int64_t, 4> size{}, stride{};
  int rank = 4;

  int64_t last() const {
    int64_t at = 1;
    for (size_t i = 0; i < 4; ++i) at += (size[i] - 1) * stride[i];
    return at;
  }
  int64_t at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
  }
};
struct cudnnFilterStruct : cudnnTensorStruct {
  cudnnTensorFormat_t format{};
};
struct cudnnConvolutionStruct {
  int64_t pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  cudnnConvolutionMode_t mode{};
  cudnnDataType_t compute{};
  int64_t groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode{};
  cudnnNanPropagation_t nan{};
  int64_t h = 1, w = 1, pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1;
};

namespace brim::fake {

inline Elements elements(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return Elements::of<float>();
    case CUDNN_DATA_DOUBLE:
      return Elements::of<double>();
    case CUDNN_DATA_HALF:
      return Elements::of<brim::Half>();
    case CUDNN_DATA_BFLOAT16:
      return Elements::of<brim::BFloat16>();
    default:
      return {};
  }
}

inline cudnnStatus_t bad(const char* call, const std::string& why) {
  (void)wrong(call, why);
  return CUDNN_STATUS_BAD_PARAM;
}

/// The factors of a result and of what stood there, which brim has 1 and 0.
inline bool replaces(cudnnDataType_t type, const void* alpha, const void* beta) {
  if (type == CUDNN_DATA_DOUBLE)
    return *static_cast<const double*>(alpha) == 1 && *static_cast<const double*>(beta) == 0;
  return *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
}

/// Calls f(place) for all elements of channel c.
template <class F>
void for_channel(const cudnnTensorStruct& t, int64_t c, const F& f) {
  for (int64_t n = 0; n < t.size[0]; ++n)
    for (int64_t h = 0; h < t.size[2]; ++h)
      for (int64_t w = 0; w < t.size[3]; ++w) f(t.at(n, c, h, w));
}

/// Whether all of a tensor is memory of the device.
inline bool is_tensor(const void* data, const cudnnTensorStruct& desc) {
  const int64_t size = elements(desc.type).size;
  return is_memory(data, desc.last() * size) && is_aligned(data, size);
}

}  // namespace brim::fake
