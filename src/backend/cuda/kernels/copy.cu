// Copies between strides and dtypes, and filling.
#include <type_traits>

#include "backend/cuda/cast.cuh"
#include "backend/cuda/elementwise.cuh"

namespace brim::cuda {
namespace {

template <class To>
void copy(const Context& context, const Tensor& x, Tensor& y) {
  const auto from = [&]<class From>(std::type_identity<From>) {
    elementwise<To, From>(context, Cast<To>{}, y, x);
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

template <class... T>
bool register_all() {
  (backend::register_kernel("copy", DeviceKind::cuda, dtype_of<T>, &copy<T>), ...);
  (backend::register_kernel("fill", DeviceKind::cuda, dtype_of<T>, &fill<T>), ...);
  return true;
}

const bool registered =
    register_all<float, double, Half, BFloat16, int64_t, int32_t, int8_t, uint8_t, bool>();

}  // namespace
}  // namespace brim::cuda
