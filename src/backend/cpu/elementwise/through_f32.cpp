#include "backend/cpu/elementwise/through_f32.h"

#include <algorithm>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/loop.h"

namespace brim::cpu {
namespace {

/// Dense strides for the axes in the order of `t`'s; 0 where it is expanded.
Strides wide_strides(const Tensor& t) {
  if (t.is_contiguous()) return t.strides();
  std::array<int, kMaxRank> order{};
  for (int i = 0; i < t.rank(); ++i) order[static_cast<size_t>(i)] = i;
  std::stable_sort(order.begin(), order.begin() + t.rank(),
                   [&](int a, int b) { return t.strides()[a] > t.strides()[b]; });
  Strides strides = Shape::filled(t.rank(), 0);
  int64_t step = 1;
  for (int i = t.rank(); i-- > 0;) {
    const int axis = order[static_cast<size_t>(i)];
    if (t.strides()[axis] == 0) continue;
    strides[axis] = step;
    step *= std::max<int64_t>(t.shape()[axis], 1);
  }
  return strides;
}

/// Elements that lie in memory: those of expanded axes once.
int64_t count(const Tensor& t, const Strides& strides) {
  int64_t n = 1;
  for (int i = 0; i < t.rank(); ++i)
    if (strides[i] != 0) n *= t.shape()[i];
  return n;
}

template <class To, class From>
void convert(const Tensor& from, const Tensor& to) {
  Shape shape = to.shape();  // an expanded axis is converted once
  for (int i = 0; i < shape.rank(); ++i)
    if (to.strides()[i] == 0) shape[i] = std::min<int64_t>(shape[i], 1);
  const Loop<2> loop = make_loop<2>(shape, {to.strides(), from.strides()});
  const From* const px = static_cast<const From*>(from.raw());
  To* const py = static_cast<To*>(to.raw());
  const int64_t sy = loop.stride[0][0], sx = loop.stride[1][0];
  for_each_row(loop, kElementwiseGrain, [&](const std::array<int64_t, 2>& at, int64_t n) {
    if (sx == 1 && sy == 1) return convert_run(px + at[1], py + at[0], n);
    for (int64_t i = 0; i < n; ++i) py[at[0] + i * sy] = To(static_cast<float>(px[at[1] + i * sx]));
  });
}

}  // namespace

template <class T>
void dense_through_f32(formula::DenseLoop loop, int inputs, int64_t result_bytes, char* const* p,
                       int64_t n, const formula::Params& params) {
  constexpr int64_t kBlock = 1024;
  constexpr int kMaxInputs = 2;
  alignas(64) float wide[1 + kMaxInputs][kBlock];
  char* block[1 + kMaxInputs];
  for (int k = 0; k <= inputs; ++k) block[k] = reinterpret_cast<char*>(wide[k]);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    for (int k = 1; k <= inputs; ++k)
      convert_run(reinterpret_cast<const T*>(p[k]) + i, wide[k], count);
    if (result_bytes > 0) block[0] = p[0] + i * result_bytes;
    loop(block, count, params);
    if (result_bytes == 0) convert_run(wide[0], reinterpret_cast<T*>(p[0]) + i, count);
  }
}
template void dense_through_f32<Half>(formula::DenseLoop, int, int64_t, char* const*, int64_t,
                                      const formula::Params&);
template void dense_through_f32<BFloat16>(formula::DenseLoop, int, int64_t, char* const*, int64_t,
                                          const formula::Params&);

size_t WideCopy::bytes(const Tensor& narrow) {
  return static_cast<size_t>(count(narrow, wide_strides(narrow))) * sizeof(float);
}

WideCopy::WideCopy(const Context& context, const Tensor& narrow, bool read)
    : workspace_(std::in_place, bytes(narrow), context.stream, context.scratch) {
  widen(workspace_->as<void>(), narrow, read);
}

WideCopy::WideCopy(void* memory, const Tensor& narrow, bool read) { widen(memory, narrow, read); }

void WideCopy::widen(void* memory, const Tensor& narrow, bool read) {
  Ref<TensorImpl> impl(new TensorImpl);
  impl->shape = narrow.shape();
  impl->strides = wide_strides(narrow);
  impl->dtype = DType::f32;
  impl->contiguous = narrow.is_contiguous();
  impl->storage = Storage::wrap(memory, bytes(narrow), Device::cpu(), {});
  wide_ = Tensor(std::move(impl));
  if (!read) return;
  if (narrow.dtype() == DType::f16)
    convert<float, Half>(narrow, wide_);
  else
    convert<float, BFloat16>(narrow, wide_);
}

void WideCopy::write_to(const Tensor& narrow) const {
  if (narrow.dtype() == DType::f16)
    convert<Half, float>(wide_, narrow);
  else
    convert<BFloat16, float>(wide_, narrow);
}

WideTensor::WideTensor(const Context& context, const Tensor& tensor, bool read) {
  if (tensor.defined() && has_16_bits(tensor.dtype())) copy_.emplace(context, tensor, read);
}
WideTensor::~WideTensor() = default;

}  // namespace brim::cpu
