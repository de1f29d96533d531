// What convolution with ReLU, and with pooling, stands for in plans, and when that pays.
#include "backend/fused/fused_conv.h"

#include "backend/has_kernel.h"
#include "backend/rewrite.h"

namespace brim::backend {

namespace conv_pool {
namespace {

double operations(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                  const ConvPool& g) {
  return 2.0 * static_cast<double>(g.conv.work());
}
/// Of the dense gradients that it stands for.
double grad_operations(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor& dx,
                       const Tensor&, const Tensor&, const ConvPool& g) {
  return (dx.defined() ? 4.0 : 2.0) * static_cast<double>(g.conv.work());
}

const ConvPoolKernel kernel("conv2d_relu_pool", {.operands = "x, weight, bias, y, indices"},
                            &operations);
const ConvPoolGradKernel grad_kernel("conv2d_relu_pool_grad",
                                     {.operands = "x, weight, dy, indices, dx, dweight, dbias"},
                                     &grad_operations);

constexpr const char* kReluBefore = R"(
  conv2d(x, weight, bias, y: c)
  ~relu(x: c, y: r)
  max_pool2d(x: r, y, indices)
)";
constexpr const char* kReluAfter = R"(
  conv2d(x, weight, bias, y: c)
  max_pool2d(x: c, y: p, indices)
  relu(x: p, y)
)";
constexpr const char* kGradReluBefore = R"(
  ---
  max_pool2d_scatter(dy, indices, dx: dr)
  ~relu_grad(dy: dr, s: r, dx: dc)
)";
constexpr const char* kGradReluAfter = R"(
  ---
  relu_grad(dy, s: y, dx: dp)
  max_pool2d_scatter(dy: dp, indices, dx: dc)
)";
constexpr const char* kGradients = R"(
  ?conv2d_grad_x(dy: dc, weight, dx)
  conv2d_grad_weight(x, dy: dc, dweight)
  ?sum(x: dc, y: dbias)
)";

ConvPool geometry(const Match& m) {
  return {m.option<ConvGeometry>("conv2d"), m.option<PoolGeometry>("max_pool2d"),
          m.find("relu") != nullptr};
}

bool gradients_fit(const Match& m, const ConvPool& g) {
  const Tensor &dweight = m["dweight"], &dbias = m["dbias"];
  return (m.find("relu") != nullptr) == (m.find("relu_grad") != nullptr) &&
         m.option<PoolGeometry>("max_pool2d_scatter") == g.pool &&
         m.option<ConvGeometry>("conv2d_grad_weight") == g.conv && dweight.is_contiguous() &&
         (!m.find("conv2d_grad_x") || m.option<ConvGeometry>("conv2d_grad_x") == g.conv) &&
         (!dbias.defined() || (dbias.shape() == Shape{1, g.conv.o, 1, 1} && dbias.is_contiguous()));
}

bool pays(const Match& m) {
  const ConvPool g = geometry(m);
  // Indices are bytes. The gradient follows the windows' maxima: there must be few of them.
  return m["y"].numel() > 0 && m["weight"].is_contiguous() && g.conv.groups == 1 &&
         g.pool.kernel.h * g.pool.kernel.w < kNoIndex && g.pool.stride.h * g.pool.stride.w >= 4 &&
         is_fast("conv2d_relu_pool", m.device(), g) &&
         (!m.find("max_pool2d_scatter") || gradients_fit(m, g));
}

Launches build(Match& m) {
  const ConvPool g = geometry(m);
  Tensor y = m.target("y");
  const bool nhwc = !y.is_contiguous() && y.is_contiguous(MemoryFormat::nhwc);
  Tensor indices = m.make(y.shape(), DType::u8, nhwc ? MemoryFormat::nhwc : MemoryFormat::nchw);
  Launches launches =
      one(kernel.launch(m.device(), m.dtype(), m["x"], m["weight"], m["bias"], y, indices, g));
  if (!m.find("max_pool2d_scatter")) return launches;
  Tensor dx = m.target("dx"), dweight = m.target("dweight"), dbias = m.target("dbias");
  if (dbias.defined()) dbias = dbias.alias({g.conv.o}, {1}, dbias.offset());
  launches.push_back(grad_kernel.launch(m.device(), m.dtype(), m["x"], m["weight"], m["dy"],
                                        indices, dx, dweight, dbias, g));
  return launches;
}

const std::string before = kReluBefore, after = kReluAfter;
const bool registered = register_rewrite(
    {.name = "conv2d_relu_pool",
     .what = "convolution, ReLU and max pooling in one launch, and their gradients in another",
     .ulp = 8,  // kernels of their own add up in another order
     .patterns = {after + kGradReluAfter + kGradients, before + kGradReluBefore + kGradients, after,
                  before},
     .kernels = {"conv2d_relu_pool", "conv2d_relu_pool_grad"},
     .pays = pays,
     .build = build});

}  // namespace
}  // namespace conv_pool

namespace conv_relu {
namespace {

double operations(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                  const ConvGeometry& g) {
  return 2.0 * static_cast<double>(g.work());
}

const ConvReluKernel kernel("conv2d_relu",
                            {.operands = "x, weight, bias, y", .activations = "x, y"}, &operations);

// Behind conv2d_relu_pool, which replaces more launches, and beside batch_norm, which a ReLU that
// reads a convolution does not follow.
const bool registered = register_rewrite(
    {.name = "conv2d_relu",
     .what = "convolution and ReLU in one launch",
     .ulp = 64,  // of CUDA, where cuDNN may take another algorithm; the CPU keeps every bit
     .patterns = {"conv2d(x, weight, bias, y: c) \n relu(x: c, y)"},
     .kernels = {"conv2d_relu"},
     .pays =
         [](const Match& m) {
           return m["y"].shape() == m["c"].shape() && m["y"].strides() == m["c"].strides();
         },
     .build =
         [](Match& m) {
           Tensor y = m.target("y");
           return one(kernel.launch(m.device(), m.dtype(), m["x"], m["weight"], m["bias"], y,
                                    m.option<ConvGeometry>("conv2d")));
         }});

}  // namespace
}  // namespace conv_relu
}  // namespace brim::backend
