// The facts of a tensor, its making from host memory and its reading on the host.
#include <brim/core/tensor.h>

#include <algorithm>

#include "core/check.h"
#include "core/recording.h"
#include "core/runtime.h"
#include "diag/span.h"

namespace brim {
namespace {

/// Bytes of a new tensor; throws before an overflow can turn into a small allocation.
size_t checked_bytes(const Shape& shape, DType dtype) {
  // Sizes beside a 0 must fit together too: strides are made of them.
  int64_t bytes = 1;
  bool overflow = false, empty = false;
  for (const int64_t d : shape) {
    BRIM_CHECK(d >= 0, ShapeError, "[tensor] shape {} has a negative size", shape.str());
    empty |= d == 0;
    overflow |= __builtin_mul_overflow(bytes, std::max<int64_t>(d, 1), &bytes);
  }
  if (empty) bytes = 0;
  overflow |= __builtin_mul_overflow(bytes, static_cast<int64_t>(size_of(dtype)), &bytes);
  BRIM_CHECK(!overflow, ShapeError, "[tensor] shape {} has more elements than memory can hold",
             shape.str());
  return static_cast<size_t>(bytes);
}

[[noreturn]] void raise_undefined(const char* op) {
  raise<ValueError>("[{}] a tensor is undefined (default-constructed); give it a value first", op);
}

/// For readings of `t` as numbers of another type.
void check_dtype(const char* op, const Tensor& t, DType expected) {
  if (t.dtype() == expected) return;
  BRIM_CHECK(is_computed(t.dtype()), DTypeError,
             "[{}] the tensor is {}, not {}, and stored only; read its own type, or bytes at raw()",
             op, name(t.dtype()), name(expected));
  raise<DTypeError>("[{}] the tensor is {}, not {}; cast with x.to({})", op, name(t.dtype()),
                    name(expected), name(expected));
}

void check_defined(const char* op, const Tensor& t) {
  if (!t.defined()) raise_undefined(op);
}

bool is_row_major(const Shape& shape, const Strides& strides) {
  int64_t step = 1;
  bool dense = true;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;  // nothing to order
    if (shape[i] != 1 && strides[i] != step) dense = false;
    step *= shape[i];
  }
  return dense;
}

}  // namespace

void Tensor::throw_undefined() { raise_undefined("tensor"); }

Tensor Tensor::empty(const Shape& shape, const TensorOptions& options) {
  Tensor t = empty(shape, options.dtype, options.device);
  if (options.requires_grad) t.set_requires_grad();
  return t;
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  const size_t bytes = checked_bytes(shape, dtype);
  Ref<TensorImpl> impl(new TensorImpl);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  impl->storage = Storage::allocate(bytes, device);
  return Tensor(std::move(impl));
}

Tensor Tensor::empty_pinned(const Shape& shape, DType dtype, DeviceKind kind) {
  if (kind == DeviceKind::cpu) return empty(shape, dtype, Device::cpu());
  const size_t bytes = checked_bytes(shape, dtype);
  Ref<TensorImpl> impl(new TensorImpl);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  impl->storage = Storage::pinned(bytes, kind);
  return Tensor(std::move(impl));
}

Tensor Tensor::alias(const Shape& shape, const Strides& strides, int64_t offset) const {
  Ref<TensorImpl> impl(new TensorImpl);
  impl->shape = shape;
  impl->strides = strides;
  impl->offset = offset;
  impl->dtype = dtype();
  impl->contiguous = is_row_major(shape, strides);
  impl->storage = storage();
  if (recording) [[unlikely]]
    recording->viewed(*impl_);
  return Tensor(std::move(impl));
}

void Tensor::set_data(const Tensor& source) {
  check_defined("set_data", *this);
  check_defined("set_data", source);
  impl_->shape = source.shape();
  impl_->strides = source.strides();
  impl_->offset = source.offset();
  impl_->dtype = source.dtype();
  impl_->contiguous = source.is_contiguous();
  impl_->storage = source.storage();
}

int64_t Tensor::size(int axis) const {
  check_defined("size", *this);
  return shape()[normalize_axis(axis, rank(), "size")];
}

Strides strides_of(const Shape& shape, MemoryFormat format) {
  if (format == MemoryFormat::nchw) return contiguous_strides(shape);
  BRIM_CHECK(shape.rank() == 4, ShapeError,
             "[memory format] nhwc and chwn need rank 4 (N, C, H, W), got shape {}", shape.str());
  const int order_nhwc[] = {0, 2, 3, 1}, order_chwn[] = {1, 2, 3, 0};  // outermost first
  const int* order = format == MemoryFormat::nhwc ? order_nhwc : order_chwn;
  Strides strides = shape;
  int64_t step = 1;
  for (int i = 3; i >= 0; --i) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(shape[order[i]], 1);
  }
  return strides;
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::nchw) return is_contiguous();
  if (rank() != 4) return false;
  const Strides want = strides_of(shape(), format);
  for (int i = 0; i < 4; ++i)
    if (shape()[i] > 1 && strides()[i] != want[i]) return false;
  return true;
}

Tensor Tensor::from_host(const void* values, int64_t count, DType dtype, const Shape& shape,
                         Device device) {
  refuse_in_recording("from",
                      "it copies numbers of the host, which a plan would never copy again; "
                      "make the tensor before the step, or pass it as an input");
  checked_bytes(shape, dtype);  // before numel() can overflow
  BRIM_CHECK(count == shape.numel(), ShapeError, "[from] {} values do not fill shape {}", count,
             shape.str());
  const diag::Span span("from", device.is_cpu() ? diag::Cause::compute : diag::Cause::staging);
  Tensor t = empty(shape, dtype, device);
  const Stream stream = Stream::current(device);
  runtime(device.kind).copy(t.raw(), device, values, Device::cpu(), t.storage()->bytes(), stream);
  return t;
}

Tensor Tensor::from_bits(const std::vector<bool>& values, const Shape& shape, Device device) {
  const diag::Span span("from", device.is_cpu() ? diag::Cause::compute : diag::Cause::staging);
  const std::unique_ptr<bool[]> plain(new bool[values.size()]);
  std::copy(values.begin(), values.end(), plain.get());
  return from(std::span<const bool>(plain.get(), values.size()), shape, device);
}

void* Tensor::host_data(DType expected) const {
  check_defined("data", *this);
  if (storage()->recorded)
    refuse_in_recording("data",
                        "the tensor has no values while the step is recorded; return it "
                        "and read it after the step");
  BRIM_CHECK(device().is_cpu(), DeviceError,
             "[data] the tensor is on {}; the host cannot read it, use copy_to(Device::cpu())",
             device().str());
  check_dtype("data", *this, expected);
  return raw();
}

void Tensor::read_host(const std::function<void*(size_t count)>& make_room,
                       const std::function<void(size_t count)>& done, DType dtype) const {
  check_defined("to_vector", *this);
  check_dtype("to_vector", *this, dtype);
  refuse_in_recording("host read",
                      "item() and to_vector() read a value that is not computed yet; return the "
                      "tensor and read it after the step");
  const diag::Span span("host_read", diag::Cause::host_read);
  const Tensor packed = detach().contiguous();
  const Stream stream = Stream::current(device());
  const auto count = static_cast<size_t>(numel());
  runtime(device().kind)
      .copy(make_room(count), Device::cpu(), packed.raw(), device(), count * size_of(dtype),
            stream);
  stream.synchronize();
  if (done) done(count);
}

template <class R>
static R read_item(const Tensor& t) {
  check_defined("item", t);
  BRIM_CHECK(t.numel() == 1, ShapeError,
             "[item] a tensor of shape {} has {} elements, not one; index or reduce it first",
             t.shape().str(), t.numel());
  switch (t.dtype()) {
    case DType::f32:
      return static_cast<R>(t.to_vector<float>()[0]);
    case DType::f64:
      return static_cast<R>(t.to_vector<double>()[0]);
    case DType::f16:
      return static_cast<R>(static_cast<float>(t.to_vector<Half>()[0]));
    case DType::bf16:
      return static_cast<R>(static_cast<float>(t.to_vector<BFloat16>()[0]));
    case DType::i64:
      return static_cast<R>(t.to_vector<int64_t>()[0]);
    case DType::i32:
      return static_cast<R>(t.to_vector<int32_t>()[0]);
    case DType::i8:
      return static_cast<R>(t.to_vector<int8_t>()[0]);
    case DType::u8:
      return static_cast<R>(t.to_vector<uint8_t>()[0]);
    case DType::bool_:
      return static_cast<R>(t.to(DType::u8).to_vector<uint8_t>()[0] != 0);
    default:
      raise<DTypeError>("[item] {} is stored only; read it with to_vector(), or bytes at raw()",
                        name(t.dtype()));
  }
}

double Tensor::item_f64() const { return read_item<double>(*this); }
int64_t Tensor::item_i64() const {
  // A cast in the tensor saturates; one of C++ is undefined for NaN and numbers beyond i64.
  return read_item<int64_t>(defined() && is_floating(dtype()) ? detach().to(DType::i64) : *this);
}

/// Nested brackets around the elements, from `at` on.
template <class T, class Format>
static void print_values(std::string& s, const T* values, const Shape& shape, int axis, int64_t& at,
                         const Format& format) {
  if (axis == shape.rank()) {
    s += format(values[at++]);
    return;
  }
  s += "[";
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (i) s += ", ";
    print_values(s, values, shape, axis + 1, at, format);
  }
  s += "]";
}

std::string Tensor::str() const {
  if (!defined()) return "Tensor(undefined)";
  constexpr int64_t kMax = 64;  // elements worth printing
  std::string s = fmt::format("Tensor({} {} on {}", shape().str(), name(dtype()), device().str());
  int64_t brackets = 1;
  for (int64_t d : shape()) brackets = std::min(kMax + 1, brackets * std::max<int64_t>(d, 1));
  if (brackets <= kMax && is_computed(dtype())) {
    s += ": ";
    int64_t at = 0;
    if (is_floating(dtype())) {
      const std::vector<double> v = detach().to(DType::f64).to_vector<double>();
      print_values(s, v.data(), shape(), 0, at, [](double e) { return fmt::format("{:.6g}", e); });
    } else {
      const std::vector<int64_t> v = detach().to(DType::i64).to_vector<int64_t>();
      print_values(s, v.data(), shape(), 0, at, [&](int64_t e) {
        return dtype() != DType::bool_ ? std::to_string(e) : std::string(e ? "true" : "false");
      });
    }
  }
  return s + ")";
}

}  // namespace brim
