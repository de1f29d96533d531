#include "dist/reduce_elements.h"

#include <type_traits>

#include "backend/types.h"
#include "dist/reductions.h"

namespace brim::dist {
namespace {

template <class T, class F>
void loop(void* into, const void* from, int64_t count) {
  using A = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
  T* __restrict__ x = static_cast<T*>(into);
  const T* __restrict__ y = static_cast<const T*>(from);
  for (int64_t i = 0; i < count; ++i)
    x[i] = static_cast<T>(F()(static_cast<A>(x[i]), static_cast<A>(y[i])));
}

}  // namespace

void reduce_elements(DType dtype, Reduce reduce, void* into, const void* from, int64_t count) {
  backend::for_each_type(backend::AllTypes{}, [&]<class T>(std::type_identity<T>) {
    if (dtype == dtype_of<T>)
      with_reduction<T>(reduce, [&]<class F>(F) { loop<T, F>(into, from, count); });
  });
}

}  // namespace brim::dist
