// LSTM and GRU by cuDNN 9: a layer in one direction and its gradient, CUDNN_RNN_ALGO_STANDARD.
// There is no kernel of brim's beside it: what cuDNN cannot do is not launched, and the ops apart
// compute it (ops/recurrent/layer.cpp).
#if BRIM_HAVE_CUDNN
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "backend/cuda/libraries/cudnn_handle.h"
#include "backend/cuda/libraries/cudnn_recurrent.h"
#include "backend/cuda/libraries/cudnn_tensor.h"
#include "backend/cuda/runtime/check.h"
#include "backend/kernel.h"
#include "backend/saved_bytes.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

using namespace dnn;
using backend::RecurrentLayer;

// The first version and compute capability with bf16, as PyTorch has it.
constexpr size_t kBFloat16Version = 91300;
constexpr int kBFloat16Capability = 80;

using RecurrentKey = std::array<int64_t, 9>;
RecurrentKey recurrent_key(int device, DType dtype, const RecurrentLayer& l) {
  return {device,
          static_cast<int64_t>(dtype),
          static_cast<int64_t>(l.cell),
          l.bias,
          is_in_tf32(dtype, l),
          l.steps,
          l.batch,
          l.in,
          l.hidden};
}

std::mutex operations_mutex;
ProblemCache<RecurrentKey, RecurrentOperation>& operations() {
  static auto* const all = new ProblemCache<RecurrentKey, RecurrentOperation>;
  return *all;
}

/// With both mutexes held.
const RecurrentOperation& operation_of(Handle& handle, Stream stream, DType dtype,
                                       const RecurrentLayer& l) {
  const RecurrentKey key = recurrent_key(stream.device.index, dtype, l);
  if (const RecurrentOperation* const known = operations().find(key)) return *known;
  const auto find = [&] { return describe_recurrent(handle.get(), stream, dtype, l); };
  return operations().add(key, found_or(RecurrentOperation(), "the layer, op by op", find));
}

std::optional<size_t> saved_bytes(Device device, DType dtype, const RecurrentLayer& l) {
  const int64_t rows = l.steps * l.batch, columns = std::max(l.in, l.gates() * l.hidden);
  if (rows == 0 || l.in == 0 || l.hidden == 0 || !are_ints({rows, columns, rows * columns}))
    return {};
  if (!library().is_there("recurrent layers")) return {};
  if (dtype == DType::bf16 && (library().version() < kBFloat16Version ||
                               compute_capability(device.index) < kBFloat16Capability))
    return {};
  const Stream stream = Stream::current(device);
  const bool captured = is_captured(stream);
  Handle* const handle = handle_of(device.index, !captured);
  const std::lock_guard one_search(operations_mutex);
  if (captured && (!handle || !operations().find(recurrent_key(device.index, dtype, l)))) {
    warn_of_capture();
    return {};
  }
  if (!handle) return {};
  const std::lock_guard one_problem(handle->mutex);
  const DeviceGuard guard(device.index);
  const RecurrentOperation& r = operation_of(*handle, stream, dtype, l);
  return r.possible ? std::optional(r.saved) : std::nullopt;
}

/// Calls compute(handle, operation) while no other thread uses cuDNN on the device.
template <class Compute>
void with_operation(const Context& context, DType dtype, const RecurrentLayer& l,
                    const Tensor& saved, const Compute& compute) {
  const int device = context.device().index;
  Handle* const handle = handle_of(device, !is_captured(context.stream));
  if (!handle)
    raise<DeviceError>("[{}] cuDNN cannot begin, or not while a graph is captured", op_name());
  const std::lock_guard one_search(operations_mutex), one_problem(handle->mutex);
  const DeviceGuard guard(device);
  const RecurrentOperation& r = operation_of(*handle, context.stream, dtype, l);
  if (!r.possible || (saved.defined() && saved.numel() < static_cast<int64_t>(r.saved)))
    raise<DeviceError>("[{}] cuDNN cannot compute this layer any more", op_name());
  compute(*handle, r);
  note_queued(device);
}

const void* data_of(const Tensor& t) { return t.defined() ? t.raw() : nullptr; }

void copy_async(const Context& context, void* to, const void* from, size_t bytes) {
  BRIM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(context.stream)));
}

/// Copies weight_ih, weight_hh, bias_ih and bias_hh to where cuDNN wants them.
void pack_weights(const Context& context, const RecurrentOperation& r,
                  const std::array<const void*, 4>& parameters, char* space) {
  for (const WeightSegment& s : r.segments)
    copy_async(context, space + s.to, static_cast<const char*>(parameters[s.parameter]) + s.from,
               s.bytes);
}

/// Memory that one call of cuDNN's needs beside its tensors.
class CallMemory {
 public:
  explicit CallMemory(const Context& context) : context_(context) {}
  /// The tensor, or a copy, so that it begins at a multiple of 16 bytes and may be read in vectors.
  const void* aligned(const Tensor& t) {
    if (!t.defined() || reinterpret_cast<uintptr_t>(t.raw()) % 16 == 0) return data_of(t);
    const size_t bytes = bytes_of(t);
    void* const to = take(bytes);
    copy_async(context_, to, t.raw(), bytes);
    return to;
  }
  /// The tensor, or, where nobody wants it, memory for what is as large as `like`.
  void* target(Tensor& t, const Tensor& like) {
    return t.defined() ? t.raw() : take(bytes_of(like));
  }
  void* take(size_t bytes) {
    return taken_.emplace_back(std::max<size_t>(bytes, 1), context_.stream, context_.scratch)
        .as<void>();
  }

 private:
  static size_t bytes_of(const Tensor& t) {
    return static_cast<size_t>(t.numel()) * size_of(t.dtype());
  }
  const Context& context_;
  std::deque<Workspace> taken_;
};

void recurrent_layer(const Context& context, const Tensor& x, const Tensor& weight_ih,
                     const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
                     const Tensor& h, const Tensor& c, Tensor& y, Tensor& last_h, Tensor& last_c,
                     Tensor& saved, const RecurrentLayer& layer) {
  with_operation(
      context, x.dtype(), layer, saved, [&](Handle& handle, const RecurrentOperation& r) {
        const bool is_training = saved.defined(), is_lstm = c.defined();
        const size_t bytes = is_training ? r.training : r.inference;
        CallMemory memory(context);
        void *const weights = memory.take(r.weights), *const scratch = memory.take(bytes);
        pack_weights(context, r,
                     {weight_ih.raw(), weight_hh.raw(), data_of(bias_ih), data_of(bias_hh)},
                     static_cast<char*>(weights));
        const void *const from = memory.aligned(x), *const hx = memory.aligned(h),
                          *const cx = memory.aligned(c);
        check(library().rnn(handle.on(context.stream), r.rnn.get(),
                            is_training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                            nullptr, r.x.get(), from, r.y.get(), y.raw(), r.state.get(), hx,
                            last_h.raw(), is_lstm ? r.state.get() : nullptr, cx,
                            is_lstm ? last_c.raw() : nullptr, r.weights, weights, bytes, scratch,
                            is_training ? r.saved : 0, is_training ? saved.raw() : nullptr),
              "cudnnRNNForward");
      });
}

void recurrent_layer_grad(const Context& context, const Tensor& dy, const Tensor& dlast_h,
                          const Tensor& dlast_c, const Tensor& x, const Tensor& weight_ih,
                          const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
                          const Tensor& h, const Tensor& c, const Tensor& y, const Tensor& saved,
                          Tensor& dx, Tensor& dweight_ih, Tensor& dweight_hh, Tensor& dbias_ih,
                          Tensor& dbias_hh, Tensor& dh, Tensor& dc, const RecurrentLayer& layer) {
  with_operation(
      context, x.dtype(), layer, saved, [&](Handle& handle, const RecurrentOperation& r) {
        const bool is_lstm = c.defined();
        CallMemory memory(context);
        void *const weights = memory.take(r.weights), *const scratch = memory.take(r.training),
                    *const reserve = memory.take(r.saved);
        pack_weights(context, r,
                     {weight_ih.raw(), weight_hh.raw(), data_of(bias_ih), data_of(bias_hh)},
                     static_cast<char*>(weights));
        // cuDNN writes into it, and there may be another call for the same gradient.
        copy_async(context, reserve, saved.raw(), r.saved);
        const void *const from = memory.aligned(x), *const hx = memory.aligned(h),
                          *const cx = memory.aligned(c), *const up = memory.aligned(dy),
                          *const dhy = memory.aligned(dlast_h),
                          *const dcy = memory.aligned(dlast_c);
        void *const dfrom = memory.target(dx, x), *const dhx = memory.target(dh, h),
                    *const dcx = is_lstm ? memory.target(dc, c) : nullptr;
        check(library().rnn_grad_data(handle.on(context.stream), r.rnn.get(), nullptr, r.y.get(),
                                      y.raw(), up, r.x.get(), dfrom, r.state.get(), hx, dhy, dhx,
                                      is_lstm ? r.state.get() : nullptr, cx, dcy, dcx, r.weights,
                                      weights, r.training, scratch, r.saved, reserve),
              "cudnnRNNBackwardData_v8");
        const std::array<const Tensor*, 4> wanted{&dweight_ih, &dweight_hh, &dbias_ih, &dbias_hh};
        if (std::ranges::none_of(wanted, [](const Tensor* t) { return t->defined(); })) return;
        // cuDNN only adds, as its reference says of addGrad. The weights are needed no more.
        BRIM_CUDA(cudaMemsetAsync(weights, 0, r.weights, native(context.stream)));
        check(library().rnn_grad_weights(handle.on(context.stream), r.rnn.get(),
                                         CUDNN_WGRAD_MODE_ADD, nullptr, r.x.get(), from,
                                         r.state.get(), hx, r.y.get(), y.raw(), r.weights, weights,
                                         r.training, scratch, r.saved, reserve),
              "cudnnRNNBackwardWeights_v8");
        for (const WeightSegment& s : r.segments)
          if (const Tensor& to = *wanted[s.parameter]; to.defined())
            copy_async(context, static_cast<char*>(to.raw()) + s.from,
                       static_cast<const char*>(weights) + s.to, s.bytes);
      });
}

const bool registered_layers =
    backend::for_each_type(backend::Floats{},
                           []<class T>(std::type_identity<T>) {
                             constexpr DeviceKind cuda = DeviceKind::cuda;
                             backend::register_kernel("recurrent_layer", cuda, dtype_of<T>,
                                                      &recurrent_layer);
                             backend::register_kernel("recurrent_layer_grad", cuda, dtype_of<T>,
                                                      &recurrent_layer_grad);
                           }) &&
    backend::register_saved_bytes<RecurrentLayer>("recurrent_layer", DeviceKind::cuda,
                                                  &saved_bytes);

}  // namespace
}  // namespace brim::cuda

#endif
