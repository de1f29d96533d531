// Copies between strides and dtypes, and filling.
#include <cstdint>
#include <type_traits>

#include "backend/cuda/elementwise/cast.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/elementwise/transpose.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

struct Keep {
  template <class T>
  __device__ T operator()(T v) const {
    return v;
  }
};

struct Wide {
  uint64_t low, high;
};

/// y = f(x), by tiles where x is read across what is written.
template <class To, class From, class F>
void copy_elements(const Context& context, const F& f, Tensor& y, const Tensor& x) {
  if (const auto across = Transposition::of(backend::make_loop(y, x)))
    transpose<To, From>(context, f, *across, y, x);
  else
    elementwise<To, From>(context, f, y, x);
}

/// Within one dtype, and so in the one way for those that are stored only: bit for bit.
void copy_bits(const Context& context, const Tensor& x, Tensor& y) {
  switch (size_of(x.dtype())) {
    case 1:
      return copy_elements<uint8_t, uint8_t>(context, Keep{}, y, x);
    case 2:
      return copy_elements<uint16_t, uint16_t>(context, Keep{}, y, x);
    case 4:
      return copy_elements<uint32_t, uint32_t>(context, Keep{}, y, x);
    case 8:
      return copy_elements<uint64_t, uint64_t>(context, Keep{}, y, x);
    default:
      return copy_elements<Wide, Wide>(context, Keep{}, y, x);
  }
}

template <class To>
void copy(const Context& context, const Tensor& x, Tensor& y) {
  if (x.dtype() == y.dtype()) return copy_bits(context, x, y);
  const auto from = [&]<class From>(std::type_identity<From>) {
    copy_elements<To, From>(context, Cast<To>{}, y, x);
  };
  switch (x.dtype()) {
    case DType::f32:
      return from(std::type_identity<float>{});
    case DType::f64:
      return from(std::type_identity<double>{});
    case DType::f16:
      return from(std::type_identity<Half>{});
    case DType::bf16:
      return from(std::type_identity<BFloat16>{});
    case DType::i64:
      return from(std::type_identity<int64_t>{});
    case DType::i32:
      return from(std::type_identity<int32_t>{});
    case DType::i8:
      return from(std::type_identity<int8_t>{});
    case DType::u8:
      return from(std::type_identity<uint8_t>{});
    case DType::bool_:
      return from(std::type_identity<bool>{});
    default:
      backend::missing_kernel("to", DeviceKind::cuda, x.dtype());
  }
}

template <class T>
struct Constant {
  double value;
  __device__ auto operator()() const { return Cast<T>{}(value); }
};

template <class T>
void fill(const Context& context, Tensor& y, double value) {
  elementwise<T>(context, Constant<T>{value}, y);
}

bool register_stored_only() {
  for (int i = 0; i < kDTypeCount; ++i)
    if (const auto dtype = static_cast<DType>(i); !is_computed(dtype))
      backend::register_kernel("copy", DeviceKind::cuda, dtype, &copy_bits);
  return true;
}

const bool registered =
    backend::for_each_type(
        backend::AllTypes{},
        []<class T>(std::type_identity<T>) {
          backend::register_kernel("copy", DeviceKind::cuda, dtype_of<T>, &copy<T>);
          backend::register_kernel("fill", DeviceKind::cuda, dtype_of<T>, &fill<T>);
        }) &&
    register_stored_only();

}  // namespace
}  // namespace brim::cuda
