// Tensor: a handle to shared storage with a shape, strides, an offset and an autograd record.
// Copying a Tensor copies the handle. Ops live in <brim/ops/...>; here is what every user needs.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <brim/core/device.h>
#include <brim/core/dtype.h>
#include <brim/core/error.h>
#include <brim/core/ref.h>
#include <brim/core/shape.h>
#include <brim/core/storage.h>

namespace brim {

class Generator;

namespace autograd {
struct Meta;
/// Ends what autograd keeps of a tensor.
struct MetaDeleter {
  void operator()(Meta* meta) const;  ///< ends it
};
}  // namespace autograd

/// Order of a 4-d tensor's elements in memory. The logical shape stays (N, C, H, W) in all of them.
enum class MemoryFormat : uint8_t {
  nchw,  ///< row-major: W runs fastest
  nhwc,  ///< C runs fastest: what convolutions like on most devices
  chwn   ///< N runs fastest
};

/// How a new tensor is made: `zeros({2, 3}, {.dtype = f64, .device = "cuda:0"})`.
struct TensorOptions {
  DType dtype = DType::f32;          ///< of its elements
  Device device = default_device();  ///< where it lives
  bool requires_grad = false;        ///< a leaf of floating dtype whose gradient is wanted
};

/// Options of Tensor::copy_.
struct CopyOptions {
  /// The call does not wait for a copy from a device into pinned memory (Tensor::empty_pinned):
  /// read that after `storage()->finish_copies()`. Into other memory of the host, and into a view
  /// that is not dense, it waits always. Copies to a device do not wait, with it or without.
  bool non_blocking = false;
};

/// What the handles of one tensor share.
struct TensorImpl final : RefCounted {
  Shape shape;               ///< sizes of its axes
  Strides strides;           ///< elements between neighbours along each axis
  int64_t offset = 0;        ///< where it begins in the storage, in elements
  DType dtype = DType::f32;  ///< of its elements
  bool contiguous = true;    ///< row-major without gaps
  Ref<Storage> storage;      ///< its memory, which views share
  /// Gradient, history and hooks; null: none.
  std::unique_ptr<autograd::Meta, autograd::MetaDeleter> autograd;
};

/// Options of Tensor::backward.
struct BackwardOptions {
  bool retain_graph = false;  ///< keep the graph for a second backward
  bool create_graph = false;  ///< record the backward pass itself, for higher derivatives
};

/// A handle of an array of up to 8 axes on one device, with its gradient and history, if it has
/// any.
class Tensor {
 public:
  Tensor() = default;  ///< undefined: no shape, no storage
  /// For ops: a handle of what one has made.
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  /// Uninitialised memory.
  static Tensor empty(const Shape& shape, const TensorOptions& options = {});
  static Tensor empty(const Shape& shape, DType dtype, Device device);  ///< as above
  /// The same on the host, in memory that devices of `kind` read by themselves (page-locked for
  /// cuda): a copy to one goes on when its call has returned, so write to the tensor only after
  /// `storage()->finish_copies()`. For the CPU's own kind: plain memory.
  static Tensor empty_pinned(const Shape& shape, DType dtype, DeviceKind kind);
  /// Row-major values copied from host memory. Throws ShapeError when counts differ.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape,
                     Device device = default_device()) {
    return from_host(values.data(), static_cast<int64_t>(values.size()), dtype_of<T>, shape,
                     device);
  }
  ///@{
  /// The same of a list. Of bool, too, which vectors hold in packed bits.
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape,
                     Device device = default_device()) {
    if constexpr (std::is_same_v<T, bool>)  // packed bits
      return from_bits(values, shape, device);
    else
      return from(std::span<const T>(values), shape, device);
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape,
                     Device device = default_device()) {
    return from(std::span<const T>(values.begin(), values.size()), shape, device);
  }
  ///@}

  // --- facts; an undefined tensor has only defined(), is_same() and str(): the rest throws
  // ValueError
  /// Whether there is a tensor behind the handle.
  bool defined() const { return static_cast<bool>(impl_); }
  const Shape& shape() const { return checked().shape; }  ///< its size along each axis
  /// Elements between neighbours along each axis.
  const Strides& strides() const { return checked().strides; }
  int64_t size(int axis) const;                              ///< axis in [-rank, rank)
  int rank() const { return checked().shape.rank(); }        ///< number of axes
  int64_t numel() const { return checked().shape.numel(); }  ///< number of elements
  /// Where it begins in its storage, in elements.
  int64_t offset() const { return checked().offset; }
  DType dtype() const { return checked().dtype; }                ///< of its elements
  Device device() const { return checked().storage->device(); }  ///< where it lives
  bool is_contiguous() const { return checked().contiguous; }    ///< row-major without gaps
  /// Without gaps in this format; only rank 4 has others than nchw.
  bool is_contiguous(MemoryFormat format) const;
  /// Its memory, which views share.
  const Ref<Storage>& storage() const { return checked().storage; }
  TensorImpl* impl() const { return impl_.get(); }  ///< for ops: what handles share
  /// Whether both are handles of one tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  /// Shape, dtype, device and, for small tensors, the values.
  std::string str() const;

  // --- devices, dtypes, layouts (differentiable)
  /// This tensor if it already lives there, else a copy on `device`, in the same memory format.
  Tensor to(Device device) const;
  /// This tensor if it has that dtype, else a cast copy. Floats lose their fraction in integers: in
  /// i32 and i64 NaN is 0 and what lies beyond the range becomes its end, as PyTorch has it on a
  /// GPU; i8 and u8 wrap. Integers wrap in smaller ones. True is what is not 0.
  Tensor to(DType dtype) const;
  /// This tensor if it lies so, else a copy. Throws ShapeError for a format other than nchw unless
  /// rank is 4.
  Tensor to(MemoryFormat format) const;
  /// This tensor if it is on the CPU, else a copy.
  Tensor cpu() const { return to(Device::cpu()); }
  /// Always a copy.
  Tensor copy_to(Device device) const;
  Tensor clone() const;       ///< a copy on the same device, in the same memory format
  Tensor contiguous() const;  ///< this tensor if it is row-major without gaps, else a copy that is
  /// For a tensor that is used on another stream of its device than the one it was made on: when
  /// it ends, its memory serves again only behind the work that is queued on `stream` by then.
  /// Throws ValueError for a stream of another device, CompileError in a step that is compiled.
  void record_stream(const Stream& stream) const { storage()->record_stream(stream); }

  // --- host access. Throws DeviceError unless on the CPU, DTypeError unless T fits.
  /// Its first element. The memory lives as long as a tensor that shares it.
  template <class T>
  T* data() const {
    return static_cast<T*>(host_data(dtype_of<T>));
  }
  /// Address of the first element, unchecked: for kernels and runtimes. Throws CompileError for
  /// what a recording of a step left behind and no plan computes.
  void* raw() const {
    void* const data = storage()->data();
    if (!data) [[unlikely]]
      impl_->storage->check_computed();
    return static_cast<char*>(data) + impl_->offset * static_cast<int64_t>(size_of(impl_->dtype));
  }
  /// The only element, converted to T. Waits for the device; charged as a host read.
  template <class T = double>
  T item() const {
    if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(item_f64());
    else if constexpr (std::is_same_v<T, bool>)
      return item_f64() != 0;
    else
      return static_cast<T>(item_i64());
  }
  /// All elements in row-major order. Waits for the device; charged as a host read.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values;
    if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> packs bits
      std::unique_ptr<bool[]> plain;
      read_host(
          [&](size_t count) {
            plain.reset(new bool[count]);
            return plain.get();
          },
          [&](size_t count) { values.assign(plain.get(), plain.get() + count); }, dtype_of<T>);
    } else {
      read_host(
          [&](size_t count) {
            values.resize(count);
            return values.data();
          },
          {}, dtype_of<T>);
    }
    return values;
  }

  // --- views: share storage (differentiable)
  Tensor view(const Shape& shape) const;     ///< one size may be -1; throws where it needs a copy
  Tensor reshape(const Shape& shape) const;  ///< a view where possible, else a copy
  /// Axes start to end, both included, become one: a view where possible, else a copy.
  Tensor flatten(int start = 0, int end = -1) const;
  ///@{
  /// Axis i of the result is axes[i] of this: all axes, each once.
  Tensor permute(std::initializer_list<int> axes) const;
  Tensor permute(std::span<const int> axes) const;
  ///@}
  Tensor transpose(int a, int b) const;         ///< two axes swapped
  Tensor t() const { return transpose(0, 1); }  ///< a matrix transposed
  Tensor expand(const Shape& shape) const;      ///< -1 keeps a size
  Tensor squeeze(int axis) const;               ///< without that axis if its size is 1
  Tensor squeeze() const;                       ///< without all axes of size 1
  Tensor unsqueeze(int axis) const;  ///< with an axis of size 1 before `axis`, which counts to rank
  /// Elements start, start + step, ... below stop along `axis`; negative bounds count from the end.
  Tensor slice(int axis, int64_t start, int64_t stop, int64_t step = 1) const;
  Tensor select(int axis, int64_t index) const;  ///< drops the axis
  /// The part at `index` of the first axis.
  Tensor operator[](int64_t index) const { return select(0, index); }
  /// A view with any shape and strides, without a gradient. Unchecked: for ops.
  Tensor alias(const Shape& shape, const Strides& strides, int64_t offset) const;

  // --- ops as members: those that are asked for most; all are functions of <brim/ops/...>, too
  ///@{
  /// Over these axes, or all. See sum() and mean() in <brim/ops/reduce.h>.
  Tensor sum(const std::vector<int>& axes = {}, bool keepdim = false) const;
  Tensor mean(const std::vector<int>& axes = {}, bool keepdim = false) const;
  ///@}
  ///@{
  /// The extreme element; NaN if there is one. Throws ValueError of no elements.
  Tensor max() const;
  Tensor min() const;
  ///@}
  ///@{
  /// Where the extreme element is, i64; without an axis its row-major position in all elements.
  Tensor argmax(std::optional<int> axis = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<int> axis = {}, bool keepdim = false) const;
  ///@}
  /// The product of matrices, or of batches of them; see <brim/ops/matmul.h>.
  Tensor matmul(const Tensor& other) const;

  // --- in place. A leaf that requires a gradient may only be written under NoGrad. For other
  // tensors what is written is recorded (but for random numbers), unless tensors share the memory,
  // as views do: AutogradError then; slice_scatter and select_scatter have gradients for parts.
  Tensor& fill_(double value);          ///< every element becomes `value`
  Tensor& zero_() { return fill_(0); }  ///< every element becomes 0
  /// Broadcasts, casts and copies between devices.
  Tensor& copy_(const Tensor& source, const CopyOptions& options = {});
  ///@{
  /// Adds (subtracts) what is given, times alpha, to this; returns this. `other` broadcasts.
  Tensor& add_(const Tensor& other, double alpha = 1);
  Tensor& add_(double value);
  Tensor& sub_(const Tensor& other, double alpha = 1) { return add_(other, -alpha); }
  Tensor& sub_(double value) { return add_(-value); }
  ///@}
  ///@{
  /// Multiplies this by what is given; returns this. `other` broadcasts.
  Tensor& mul_(const Tensor& other);
  Tensor& mul_(double factor);
  ///@}
  Tensor& div_(const Tensor& other);  ///< floating dtypes only (DTypeError)
  Tensor& div_(double value);         ///< floating dtypes only (DTypeError)
  ///@{
  /// In place, as the members of those names.
  Tensor& operator+=(const Tensor& other) { return add_(other); }
  Tensor& operator-=(const Tensor& other) { return sub_(other); }
  Tensor& operator*=(const Tensor& other) { return mul_(other); }
  Tensor& operator/=(const Tensor& other) { return div_(other); }
  Tensor& operator+=(double value) { return add_(value); }
  Tensor& operator-=(double value) { return sub_(value); }
  Tensor& operator*=(double value) { return mul_(value); }
  Tensor& operator/=(double value) { return div_(value); }
  ///@}
  /// Numbers in [low, high). Without a generator, Generator::global() is used.
  Tensor& uniform_(double low = 0, double high = 1, Generator* generator = nullptr);
  /// Normal numbers. Without a generator, Generator::global() is used.
  Tensor& normal_(double mean = 0, double std = 1, Generator* generator = nullptr);

  // --- autograd
  bool requires_grad() const;  ///< set by the user, or because an input of its op requires one
  Tensor& set_requires_grad(bool value = true);  ///< leaves of floating dtype only
  bool is_leaf() const;                          ///< no op made it, or none that records a history
  Tensor grad() const;                           ///< undefined before the first backward
  void set_grad(const Tensor& grad);             ///< what grad() returns from now on
  void zero_grad() { set_grad({}); }             ///< grad() is undefined from now on
  void retain_grad();                            ///< keep .grad() of a tensor that is not a leaf
  /// d this / d leaves, added to each leaf's grad. Without `gradient` this must hold one element.
  void backward(const Tensor& gradient = {}, BackwardOptions options = {}) const;
  Tensor detach() const;  ///< shares storage, has no history
  /// `hook` sees, and may replace, the gradient of this tensor. Returns an id for remove_hook.
  int register_hook(std::function<Tensor(const Tensor&)> hook);
  /// Of a leaf: `hook` is called once backward() has added to its grad, while gradients of other
  /// tensors may still be computed. Under dist::DataParallel that is this part's gradient, before
  /// ranks exchange it: no place for an optimizer. Returns an id for remove_hook.
  int register_post_accumulate_grad_hook(std::function<void(Tensor&)> hook);
  void remove_hook(int id);  ///< the hook of that id is called no more
  /// Replaces what this handle's tensor holds (storage, shape, dtype), keeping its identity and
  /// whether it requires a gradient; modules use it to move parameters between devices.
  void set_data(const Tensor& source);

 private:
  const TensorImpl& checked() const {
    if (!impl_) [[unlikely]]
      throw_undefined();
    return *impl_;
  }
  [[noreturn]] static void throw_undefined();
  static Tensor from_bits(const std::vector<bool>& values, const Shape& shape, Device device);
  static Tensor from_host(const void* values, int64_t count, DType dtype, const Shape& shape,
                          Device device);
  void* host_data(DType expected) const;
  double item_f64() const;
  int64_t item_i64() const;
  /// Copies all elements to where `make_room` says, and calls `done` if there is one.
  void read_host(const std::function<void*(size_t count)>& make_room,
                 const std::function<void(size_t count)>& done, DType dtype) const;

  Ref<TensorImpl> impl_;
};

/// Strides of a 4-d tensor of `shape` in `format`. Throws ShapeError for other ranks (nchw: none).
Strides strides_of(const Shape& shape, MemoryFormat format);

}  // namespace brim
