// Kernels of 16-bit floats made of f32 kernels that work on rows, or images, of which none needs
// another: some of them at a time are widened, computed and rounded while they are in the L2 cache,
// so that memory sees 16 bits alone.
#pragma once

#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"
#include "backend/kernel.h"

namespace brim::cpu {

/// The leading axes of some tensors, seen as one axis of rows that is cut into parts.
class RowParts {
 public:
  /// The rows are the first `axes` axes of cut[0]. Cuts nothing where they do not lie evenly in
  /// each of the tensors.
  RowParts(std::span<const Tensor* const> cut, int axes);

  int axes() const { return axes_; }
  /// 1 where cutting is of no use.
  int64_t count() const { return count_; }
  int64_t begin(int64_t part) const { return rows_ * part / count_; }
  int64_t rows(int64_t part) const { return begin(part + 1) - begin(part); }
  /// Rows of one part of `t`, one of the tensors.
  Tensor part(const Tensor& t, int64_t index) const;
  /// Bytes that the f32 copy of a part of `t` takes; 0 where it has no 16-bit floats.
  size_t wide_bytes(const Tensor& t) const;

 private:
  int axes_;
  int64_t rows_ = 1, count_ = 1;
};

/// An argument of a kernel that is no tensor, for a part of so many rows of the first `axes` axes.
/// Options that hold a number of rows specialise it.
template <class A>
A for_rows(const A& whole, int /*axes*/, int64_t /*rows*/) {
  return whole;
}

/// One argument of a kernel for one part: what is cut is its rows, the rest all of it.
template <class A, bool kIsCut>
class RowsArgument {
 public:
  RowsArgument(const RowParts& parts, int64_t part, const std::decay_t<A>& whole, char*&)
      : argument_(for_rows(whole, parts.axes(), parts.rows(part))) {}
  const std::decay_t<A>& value() const { return argument_; }
  void finish() {}

 private:
  std::decay_t<A> argument_;
};
template <>
class RowsArgument<const Tensor&, false> {
 public:
  RowsArgument(const RowParts&, int64_t, const Tensor& whole, char*&) : tensor_(whole) {}
  const Tensor& value() const { return tensor_; }
  void finish() {}

 private:
  const Tensor& tensor_;
};
template <class A>
class RowsArgument<A, true> {
  static constexpr bool kIsOutput = std::is_same_v<A, Tensor&>;

 public:
  /// Takes the memory of its copy from the front of `memory`.
  RowsArgument(const RowParts& parts, int64_t part, const Tensor& whole, char*& memory)
      : rows_(parts.part(whole, part)) {
    const size_t bytes = parts.wide_bytes(whole);
    if (bytes == 0) return;
    copy_.emplace(memory, rows_, !kIsOutput);
    memory += bytes;
  }
  Tensor& value() { return copy_ ? copy_->wide() : rows_; }
  void finish() {
    if (kIsOutput && copy_) copy_->write_to(rows_);
  }

 private:
  Tensor rows_;
  std::optional<WideCopy> copy_;
};

template <auto kFunction, auto kAxes, size_t... kCut>
struct RowsThroughF32;

template <class... Args, void (*kFunction)(const Context&, Args...), auto kAxes, size_t... kCut>
struct RowsThroughF32<kFunction, kAxes, kCut...> {
  /// For f16 and for bf16.
  static void run(const Context& context, Args... args) {
    run_indexed(context, std::index_sequence_for<Args...>(), args...);
  }

 private:
  template <size_t kArgument>
  static constexpr bool kIsCut = ((kArgument == kCut) || ...);
  /// What is not cut is widened once.
  template <size_t kArgument, class A>
  using Whole = std::conditional_t<kIsCut<kArgument>, SameArgument<A>, WideArgument<A>>;

  template <size_t... I>
  static void run_indexed(const Context& context, std::index_sequence<I...> indices, Args... args) {
    const auto all = std::tie(args...);
    const Tensor* const cut[] = {&std::get<kCut>(all)...};
    const RowParts parts(cut, kAxes(args...));
    if (parts.count() == 1) return ThroughF32<kFunction, Outputs::written>::run(context, args...);
    const size_t bytes = (parts.wide_bytes(std::get<kCut>(all)) + ...);
    const PartScratch scratch(context, parts.count(), 1, bytes);
    run_parts(context, parts, scratch, indices, Whole<I, Args>(context, args, Outputs::written)...);
  }
  template <size_t... I>
  static void run_parts(const Context& context, const RowParts& parts, const PartScratch& scratch,
                        std::index_sequence<I...>, auto&&... whole) {
    parallel_for(parts.count(), 1, [&](int64_t begin, int64_t end) {
      const PartScratch::Slot slot(scratch);
      for (; begin < end; ++begin) {
        char* memory = slot.template as<char>();
        call(context, RowsArgument<Args, kIsCut<I>>(parts, begin, whole.value(), memory)...);
      }
    });
  }
  static void call(const Context& context, auto&&... args) {
    kFunction(context, args.value()...);
    (args.finish(), ...);
  }
};

/// Registers the f32 kernel `kFunction` for f16 and bf16 too. It works on rows: the first
/// `kAxes(arguments)` axes of its arguments number kCut, all of them tensors. It must need no
/// workspace and throw nothing.
template <auto kFunction, auto kAxes, size_t... kCut>
bool register_rows_through_f32(const char* name) {
  for (const DType dtype : {DType::f16, DType::bf16})
    backend::register_kernel(name, DeviceKind::cpu, dtype,
                             &RowsThroughF32<kFunction, kAxes, kCut...>::run);
  return true;
}

/// Registers a kernel for all floats, those of 16 bits through f32 by rows.
template <auto kFloat, auto kDouble, auto kAxes, size_t... kCut>
bool register_floats_by_rows(const char* name) {
  return backend::register_kernel(name, DeviceKind::cpu, DType::f32, kFloat) &&
         backend::register_kernel(name, DeviceKind::cpu, DType::f64, kDouble) &&
         register_rows_through_f32<kFloat, kAxes, kCut...>(name);
}

}  // namespace brim::cpu
