// Every formula of two numbers, for all dtypes that have it.
#include "formula/binary.h"

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

const bool registered =
    backend::for_each_type(
        backend::Floats{},
        []<class T>(std::type_identity<T>) { register_binary<T>(formula::BinaryFormulas{}); }) &&
    backend::for_each_type(backend::Integers{}, []<class T>(std::type_identity<T>) {
      register_binary<T>(formula::BinaryIntegerFormulas{});
    });

}  // namespace
}  // namespace brim::cuda
