// What the kernels of fully connected layers stand for in plans, and when they pay.
#include "backend/fused/fused_linear.h"

#include <algorithm>

#include "backend/fused/mask_bits.h"
#include "backend/has_kernel.h"
#include "backend/rewrite.h"

namespace brim::backend {

bool few_rows_are_fast(int64_t rows, int64_t inputs, int64_t outputs) {
  constexpr int64_t kMaxRows = 64, kMaxOutputs = 4096, kMaxWork = int64_t{1} << 22;
  return rows <= kMaxRows && outputs <= kMaxOutputs && rows * inputs * outputs <= kMaxWork;
}

double linear_operations(const Tensor& x, const Tensor& weight, const Tensor&, const Tensor&) {
  return 2.0 * static_cast<double>(x.size(0)) * static_cast<double>(weight.numel());
}

namespace fused_linear {
namespace {

double grad_operations(const Tensor& x, const Tensor&, const Tensor&, const Tensor&,
                       const Tensor& dx, const Tensor& dweight, const Tensor&) {
  return (dx.defined() ? 4.0 : 2.0) * static_cast<double>(x.size(0)) *
         static_cast<double>(dweight.numel());
}
double step_operations(const Tensor& x, const Tensor& weight, const Tensor&, const Tensor&,
                       const Tensor&, const Tensor& dx, const std::span<Tensor>&,
                       const formula::StepParams&) {
  return (dx.defined() ? 4.0 : 2.0) * static_cast<double>(x.size(0)) *
         static_cast<double>(weight.numel());
}

const LinearKernel relu_kernel("linear_relu", {.operands = "x, weight, bias, y"},
                               &linear_operations);
[[maybe_unused]] const bool masked = register_mask_operand("linear_grad", "y");
const LinearGradKernel grad_kernel("linear_grad",
                                   {.operands = "x, weight, dy, y, dx, dweight, dbias"},
                                   &grad_operations);

/// The kernel of the optimizer's launch `step` with a layer's gradients in it; null if there is
/// none.
template <class... F>
const LinearStepKernel* step_kernel(std::string_view step, formula::List<F...>) {
  const LinearStepKernel* found = nullptr;
  const auto look = [&]<class G>(const G*) {
    static const LinearStepKernel kernel(
        linear_step_name<G>(), {.operands = "x, rw weight, rw bias, dy, y, dx, rw states"},
        &step_operations);
    if (step == G::kName) found = &kernel;
  };
  (look(static_cast<const F*>(nullptr)), ...);
  return found;
}
template <class... F>
std::string names(formula::List<F...>) {
  std::string all;
  (all.append(all.empty() ? "" : "|").append(F::kName), ...);
  return all;
}

/// `t` as a dense matrix.
Tensor matrix(const Tensor& t, int64_t rows, int64_t columns) {
  return t.alias({rows, columns}, {columns, 1}, t.offset());
}
bool is_matrix(const Tensor& t) { return t.rank() == 2 && t.is_contiguous(); }

// --- forward

Launches build_relu(Match& m) {
  const Tensor& z = m["z"];
  Tensor y = matrix(m["y"], z.size(0), z.size(1));
  return one(relu_kernel.launch(m.device(), m.dtype(), m["x"], m["weight"], m["bias"], y));
}

const bool relu_registered = register_rewrite(
    {.name = "linear_relu",
     .what = "a fully connected layer with its ReLU in one launch",
     .patterns = {"linear(x, weight, bias, y: z) \n relu(x: z, y)"},
     .kernels = {"linear_relu"},
     .pays = [](const Match& m) { return m["z"].is_contiguous() && m["y"].is_contiguous(); },
     .build = build_relu});

// --- backward

/// What the backward pass does with dz, the gradient of one layer (N, O).
constexpr const char* kGradients = R"(
  ~relu_grad(dy, s: y, dx: dz)
  ?dx = matmul(a: dz, b: weight, y: dx)
  dweight = matmul(a: dz.T, b: x, y: dweight)
  ?dbias = sum(x: dz, y: dbias)
)";

bool gradients_fit(const Match& m) {
  const Tensor &dz = m["dz"], &x = m["x"], &dweight = m["dweight"], &dx = m["dx"],
               &dbias = m["dbias"];
  if (!is_matrix(dz) || x.rank() != 2 || !is_matrix(dweight)) return false;
  if (m.find("relu_grad") && !(m["dy"].is_contiguous() && m["y"].is_contiguous())) return false;
  if (dx.defined() &&
      !(is_matrix(dx) && is_matrix(m["weight"]) && m["weight"].shape() == dweight.shape()))
    return false;
  return !dbias.defined() || (dbias.is_contiguous() && dbias.shape() == Shape{1, dz.size(1)});
}

/// dy and y as (N, O).
struct Incoming {
  explicit Incoming(const Match& m) : dy(m["dz"]) {
    if (!m.find("relu_grad")) return;
    y = matrix(m["y"], dy.size(0), dy.size(1));
    dy = matrix(m["dy"], dy.size(0), dy.size(1));
  }
  Tensor dy, y;
};

bool grad_pays(const Match& m) {
  const bool several = m.find("relu_grad") || m.find("dx") || m.find("dbias");
  return several && gradients_fit(m) &&
         is_fast("linear_grad", m.device(),
                 LinearSize{m["x"].size(0), m["x"].size(1), m["dz"].size(1)});
}

Launches build_grad(Match& m) {
  const Incoming in(m);
  Tensor dx = m.target("dx"), dweight = m.target("dweight"), dbias = m.target("dbias");
  if (dbias.defined()) dbias = dbias.squeeze(0);
  return one(grad_kernel.launch(m.device(), m.dtype(), m["x"],
                                dx.defined() ? m["weight"] : Tensor(), in.dy, in.y, dx, dweight,
                                dbias));
}

const bool grad_registered =
    register_rewrite({.name = "linear_grad",
                      .what = "the gradients of a fully connected layer and its ReLU in one launch",
                      .patterns = {kGradients},
                      .kernels = {"linear_grad"},
                      .pays = grad_pays,
                      .build = build_grad});

// --- the optimizer

bool step_pays(const Match& m) {
  if (!gradients_fit(m) || (m.find("dbias") != nullptr) != (m.find("bias_step") != nullptr))
    return false;
  for (const char* name : {"weight_states", "bias_states"})
    for (const Tensor& state : m.list(name))
      if (!state.is_contiguous()) return false;
  const Launch& step = *m.find("step");
  const LinearStepKernel* kernel = step_kernel(step.name(), formula::OptimFormulas{});
  return kernel && has_kernel(kernel->name(), m.device(), m.dtype()) && step.dtype() == m.dtype() &&
         is_matrix(m["weight"]) && (!m["bias"].defined() || m["bias"].is_contiguous());
}

Launches build_step(Match& m) {
  const Incoming in(m);
  const Launch& step = *m.find("step");
  Tensor weight = m.target("weight"), bias = m.target("bias"), dx = m.target("dx");
  std::vector<Tensor> states;
  for (const char* name : {"weight_states", "bias_states"})
    for (const Tensor& state : m.list(name)) states.push_back(state);
  return one(step_kernel(step.name(), formula::OptimFormulas{})
                 ->launch(m.device(), m.dtype(), m["x"], weight, bias, in.dy, in.y, dx, states,
                          *step.option<formula::StepParams>()));
}

std::string with_step() {
  const std::string step = names(formula::OptimFormulas{});
  return kGradients +
         ("step = " + step + "[](params: weight, grads: dweight, states: weight_states) \n") +
         "?bias_step = " + step + "[](params: bias, grads: dbias, states: bias_states)";
}

const bool step_registered =
    register_rewrite({.name = "linear_step",
                      .what = "the gradients of a fully connected layer, and the optimizer's step "
                              "with them, in one launch",
                      .patterns = {with_step()},
                      .kernels = {linear_step_name<formula::Sgd>()},  // where that is, all are
                      .pays = step_pays,
                      .build = build_step});

}  // namespace
}  // namespace fused_linear
}  // namespace brim::backend
