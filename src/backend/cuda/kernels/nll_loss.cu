// nll_loss and its gradient.
#include "backend/cuda/reduce/class_loss.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

constexpr const char* kNll = "nll_loss";

template <class T>
__global__ void nll_kernel(Rows<T> r, Losses<T> losses, Fault* fault, const char* op) {
  begin_kernel();
  for (int64_t row = first_index(); row < r.n; row += grid_size()) {
    r.check(row, op, fault);
    losses.write(row, r.counts(row) ? -r.factor(row) * widen(r.x[row * r.classes + r.label[row]])
                                    : Compute<T>(0));
  }
}

template <class T>
void nll_loss(const Context& context, const Tensor& x, const Tensor& target, const Tensor& weight,
              Tensor& loss, Tensor& stats, const ClassLoss& options) {
  const Rows<T> r(x, target, weight, options);
  with_losses(context, r, loss, data<Compute<T>>(stats), options.shape,
              [&](const Losses<T>& losses) {
                launch(context, &nll_kernel<T>, grid_for(r.n), r, losses,
                       fault_of(context.device().index), kNll);
              });
}

template <class T>
__global__ void nll_grad_kernel(Rows<T> r, const T* dy, bool single, const Compute<T>* divisor,
                                T* dx) {
  begin_kernel();
  using C = Compute<T>;
  for (int64_t i = first_index(); i < r.n * r.classes; i += grid_size()) {
    const int64_t row = i / r.classes;
    const bool chosen = r.counts(row) && r.label[row] == i - row * r.classes;
    dx[i] = narrow<T>(chosen ? -r.factor(row) * widen(dy[single ? row : 0]) / *divisor : C(0));
  }
}

template <class T>
void nll_loss_grad(const Context& context, const Tensor& dy, const Tensor& x, const Tensor& target,
                   const Tensor& weight, const Tensor& stats, Tensor& dx,
                   const ClassLoss& options) {
  const Rows<T> r(x, target, weight, options);
  if (r.n * r.classes == 0) return;
  launch(context, &nll_grad_kernel<T>, grid_for(r.n * r.classes), r, data<const T>(dy),
         options.shape == LossShape::single, data<const Compute<T>>(stats), data<T>(dx));
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("nll_loss", DeviceKind::cuda, dtype_of<T>, &nll_loss<T>);
      backend::register_kernel("nll_loss_grad", DeviceKind::cuda, dtype_of<T>, &nll_loss_grad<T>);
    });

}  // namespace
}  // namespace brim::cuda
