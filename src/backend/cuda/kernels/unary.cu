// Every formula of one number, for all dtypes that have it.
#include "formula/unary.h"

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

const bool registered =
    backend::for_each_type(
        backend::Floats{},
        []<class T>(std::type_identity<T>) { register_unary<T>(formula::UnaryFormulas{}); }) &&
    backend::for_each_type(backend::Integers{}, []<class T>(std::type_identity<T>) {
      register_unary<T>(formula::UnaryIntegerFormulas{});
    });

}  // namespace
}  // namespace brim::cuda
