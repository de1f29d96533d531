// Arguments of kernels that may change from one replay of a CUDA graph to the next.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "backend/cuda/graph/graph_parameters.h"

namespace brim::cuda {

/// A kernel takes a GraphParameter<T> by value in place of a T, and reads it with get().
template <class T>
struct GraphParameter {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 8);
  T value;
  const T* at;  ///< in a graph: where it stands on the device

  __device__ T get() const { return at ? *at : value; }
};

/// `argument` must be the very one that the op's kernel was given, by reference: graphs know it by
/// its address. Every key of random numbers and the numbers of an optimizer's step must go through
/// here; a graph of work where one does not is only replayed while that number stays the same.
template <class T>
GraphParameter<T> graph_parameter(const T& argument) {
  return {argument, static_cast<const T*>(place_of(&argument, sizeof(T)))};
}

}  // namespace brim::cuda
