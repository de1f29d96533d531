// Every formula of two numbers, for all dtypes that have it.
#include "formula/binary.h"

#include "backend/cuda/elementwise/elementwise.cuh"

namespace brim::cuda {
namespace {

template <class... T>
bool register_all(formula::List<T...>) {
  (register_binary<T>(formula::BinaryFormulas{}), ...);
  return true;
}
template <class... T>
bool register_integers(formula::List<T...>) {
  (register_binary<T>(formula::BinaryIntegerFormulas{}), ...);
  return true;
}

const bool registered = register_all(formula::List<float, double, Half, BFloat16>{}) &&
                        register_integers(formula::List<int64_t, int32_t, int8_t, uint8_t>{});

}  // namespace
}  // namespace brim::cuda
