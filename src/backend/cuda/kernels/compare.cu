// Comparisons, and selection by a mask.
#include "formula/compare.h"

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

struct Where {
  template <class T>
  __device__ T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

template <class T>
void where(const Context& context, const Tensor& condition, const Tensor& a, const Tensor& b,
           Tensor& y) {
  elementwise<T, bool, T, T>(context, Where{}, y, condition, a, b);
}

/// params.a where the mask holds; the mask is inverted where params.b is not 0.
template <class T>
struct MaskedFill {
  Compute<T> value;
  bool inverted;
  __device__ Compute<T> operator()(Compute<T> x, bool mask) const {
    return mask != inverted ? value : x;
  }
};

template <class T>
void masked_fill(const Context& context, const Tensor& x, const Tensor& mask, Tensor& y,
                 const formula::Params& params) {
  const MaskedFill<T> f{formula::number<Compute<T>>(params.a), params.b != 0};
  elementwise<T, T, bool>(context, f, y, x, mask);
}

const bool registered =
    backend::for_each_type(backend::AllTypes{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("where", DeviceKind::cuda, dtype_of<T>, &where<T>);
      backend::register_kernel("masked_fill", DeviceKind::cuda, dtype_of<T>, &masked_fill<T>);
      register_binary<T, bool>(formula::CompareFormulas{});
      register_unary<T, bool>(formula::CompareScalarFormulas{});
      if constexpr (!std::is_integral_v<T>)
        register_unary<T, bool>(formula::List<formula::IsFinite>{});
    });
const bool registered_logic =
    (register_binary<bool>(formula::List<formula::LogicalAnd, formula::LogicalOr>{}), true);

}  // namespace
}  // namespace brim::cuda
