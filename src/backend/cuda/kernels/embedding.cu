// embedding and its gradient. The gradient adds the rows of one id in the order of the ids, so it
// is the same each time: ids are sorted with their positions, and one thread adds what belongs to
// an element. An id out of range is noted (fault.cuh) and gives zeros.
#include "backend/cuda/elementwise.cuh"
#include "backend/cuda/fault.cuh"
#include "backend/cuda/sort.cuh"

namespace brim::cuda {
namespace {

template <class T>
__global__ void embedding_kernel(const T* weight, const int64_t* ids, T* y, int64_t n,
                                 int64_t width, int64_t rows, int64_t zero, Fault* fault) {
  for (int64_t i = first_index(); i < n * width; i += grid_size()) {
    const int64_t position = i / width, id = ids[position];
    const bool inside = id >= 0 && id < rows;
    if (!inside)
      note(fault, {.kind = FaultKind::id, .value = id, .position = position, .size = rows});
    y[i] = inside && id != zero ? weight[id * width + i % width] : T{};
  }
}

template <class T>
void embedding(const Context& context, const Tensor& weight, const Tensor& ids, Tensor& y,
               int64_t zero) {
  if (y.numel() == 0) return;
  launch(context, &embedding_kernel<T>, grid_for(y.numel()), data<const T>(weight),
         data<const int64_t>(ids), data<T>(y), ids.numel(), weight.shape()[1], weight.shape()[0],
         zero, fault_of(context.device().index));
}

struct IdOrder {
  const int64_t* ids;
  __device__ WideKey operator()(int64_t, int64_t i) const {
    return {static_cast<uint64_t>(ids[i]), static_cast<uint64_t>(i)};
  }
};

/// Threads where the run of an id begins go along it; the others have nothing to do.
template <class T>
__global__ void sum_rows_kernel(const WideKey* keys, const T* dy, T* dweight, int64_t n,
                                int64_t width, int64_t rows, int64_t skip) {
  for (int64_t i = first_index(); i < n * width; i += grid_size()) {
    const int64_t begin = i / width, column = i % width;
    const uint64_t id = keys[begin].key;
    if (id >= static_cast<uint64_t>(rows) || static_cast<int64_t>(id) == skip ||
        (begin > 0 && keys[begin - 1].key == id))
      continue;
    Compute<T> sum = 0;
    for (int64_t k = begin; k < n && keys[k].key == id; ++k)
      sum += widen(dy[static_cast<int64_t>(keys[k].position) * width + column]);
    dweight[static_cast<int64_t>(id) * width + column] = narrow<T>(sum);
  }
}

template <class T>
void embedding_grad(const Context& context, const Tensor& dy, const Tensor& ids, Tensor& dweight,
                    int64_t skip) {
  if (dweight.numel() == 0) return;
  {
    const DeviceGuard guard(context.device().index);
    BRIM_CUDA(cudaMemsetAsync(dweight.raw(), 0, static_cast<size_t>(dweight.numel()) * sizeof(T),
                              native(context.stream)));
  }
  const int64_t n = ids.numel(), rows = dweight.shape()[0], width = dweight.shape()[1];
  if (n == 0) return;
  const Workspace workspace =
      context.workspace(static_cast<size_t>(sort_scratch(1, n)) * sizeof(WideKey));
  const WideKey* keys =
      sort_keys(context, IdOrder{data<const int64_t>(ids)}, workspace.as<WideKey>(), 1, n);
  launch(context, &sum_rows_kernel<T>, grid_for(n * width), keys, data<const T>(dy),
         data<T>(dweight), n, width, rows, skip);
}

template <class... T>
bool register_all() {
  ((backend::register_kernel("embedding", DeviceKind::cuda, dtype_of<T>, &embedding<T>),
    backend::register_kernel("embedding_grad", DeviceKind::cuda, dtype_of<T>, &embedding_grad<T>)),
   ...);
  return true;
}

const bool registered = register_all<float, double, Half, BFloat16>();

}  // namespace
}  // namespace brim::cuda
