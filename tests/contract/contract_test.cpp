// The harness behind contract.h: makes inputs in every layout, compares results and gradients.
#include "contract/contract.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>

#include "contract/harness.h"
#include "layouts.h"

namespace brim::contract {
namespace {

using tests::arrange;
using tests::kLayoutName;
using tests::Layout;

double tolerance_of(const Case& c, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return c.tolerance;
    case DType::f64:
      return c.tolerance_f64;
    case DType::f16:
      return std::max(c.tolerance, c.tolerance_f16);
    case DType::bf16:
      return std::max(c.tolerance, c.tolerance_bf16);
    default:
      return 0;
  }
}

std::vector<double> spread(int64_t n, double low, double high, size_t seed) {
  std::vector<double> v(static_cast<size_t>(n));
  const double shift = std::fmod(0.37 + 0.17 * static_cast<double>(seed), 1.0);
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = low + (high - low) * (static_cast<double>(i) + shift) / static_cast<double>(n);
  std::shuffle(v.begin(), v.end(), std::mt19937(static_cast<uint32_t>(seed)));
  return v;
}

}  // namespace

std::vector<Device> devices() {
  std::vector<Device> all;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::sim})
    if (Device::count(kind) > 0) all.emplace_back(kind, 0);
  return all;
}

Tensor make_input(const Input& in, DType dtype, size_t seed) {
  std::vector<double> v = spread(in.shape.numel(), in.low, in.high, seed);
  if (in.dtype) dtype = *in.dtype;
  if (!is_floating(dtype))
    for (double& x : v) x = std::floor(x);
  if (dtype == DType::u8)
    for (double& x : v) x = std::abs(x);
  if (dtype == DType::bool_)
    for (double& x : v) x = x > (in.low + in.high) / 2;
  return array(v, in.shape, dtype);
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.shape(), want.shape())
      << what << ": " << got.shape().str() << " for " << want.shape().str();
  const std::vector<double> a = values(got), b = values(want);
  for (size_t i = 0; i < a.size(); ++i) {
    const bool equal = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    ASSERT_TRUE(equal || std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])))
        << what << ", element " << i << ": " << a[i] << ", expected " << b[i];
  }
}

Tensors cotangents(const Tensors& outputs) {
  Tensors w;
  for (size_t k = 0; k < outputs.size(); ++k)
    w.push_back(
        array(spread(outputs[k].numel(), -1, 1, 90 + k), outputs[k].shape(), outputs[k].dtype())
            .to(outputs[k].device()));
  return w;
}

Tensors recorded(const Tensors& outputs) {
  Tensors kept;
  for (const Tensor& y : outputs)
    if (y.requires_grad()) kept.push_back(y);
  return kept;
}

std::vector<size_t> differentiable(const std::vector<Input>& inputs) {
  std::vector<size_t> which;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].dtype && inputs[i].gradient) which.push_back(i);
  return which;
}

Tensors gradients(const Tensors& outputs, const Tensors& x, const Tensors& w, bool create) {
  Tensors g =
      outputs.empty() ? Tensors(x.size()) : autograd::grad(outputs, x, w, {.create_graph = create});
  for (size_t i = 0; i < x.size(); ++i)
    if (!g[i].defined()) g[i] = zeros_like(x[i]);
  return g;
}

namespace {

Tensors to_all(const Tensors& x, DType dtype, Device device) {
  Tensors y;
  for (const Tensor& t : x) y.push_back((is_floating(t.dtype()) ? t.to(dtype) : t).to(device));
  return y;
}

/// Central differences of the weighted sum of f's outputs, against its gradients, in f64.
void check_gradients(const Function& f, Tensors x, const std::string& what) {
  for (Tensor& t : x) t = t.detach().clone().set_requires_grad();
  const Tensors outputs = recorded(f(x));
  const Tensors w = cotangents(outputs);
  const Tensors g = gradients(outputs, x, w);
  auto total = [&] {
    double sum = 0;
    const Tensors y = recorded(f(x));
    for (size_t k = 0; k < y.size(); ++k) {
      const std::vector<double> a = values(y[k]), b = values(w[k]);
      sum += std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    }
    return sum;
  };
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < x.size(); ++i) {
    const std::vector<double> analytic = values(g[i]);
    ASSERT_EQ(g[i].shape(), x[i].shape()) << what;
    const size_t stride = std::max<size_t>(1, analytic.size() / 40);  // enough, and quick
    for (size_t j = 0; j < analytic.size(); j += stride) {
      double& element = x[i].data<double>()[j];
      const double before = element;
      element = before + kStep;
      const double up = total();
      element = before - kStep;
      const double down = total();
      element = before;
      const double numeric = (up - down) / (2 * kStep);
      ASSERT_NEAR(analytic[j], numeric, 2e-6 * (1 + std::abs(numeric)))
          << what << ", input " << i << ", element " << j;
    }
  }
}

void check_derivatives(const Case& c, const std::vector<Input>& inputs) {
  const std::vector<size_t> which = differentiable(inputs);
  if (which.empty()) return;
  Tensors all, x;
  for (size_t i = 0; i < inputs.size(); ++i) all.push_back(make_input(inputs[i], f64, i));
  for (size_t i : which) x.push_back(all[i]);
  auto f = [&](const Tensors& varied) {
    Tensors args = all;
    for (size_t i = 0; i < which.size(); ++i) args[which[i]] = varied[i];
    return c.op(args);
  };
  ASSERT_NO_FATAL_FAILURE(check_gradients(f, x, "gradient"));
  if (!c.second_order) return;
  // The gradient as a function of the inputs and of the weights that come from above.
  const size_t n = x.size();
  for (Tensor& t : x) t.set_requires_grad();
  const Tensors w = cotangents(recorded(f(x)));
  Tensors both = x;
  both.insert(both.end(), w.begin(), w.end());
  auto gradient = [&](const Tensors& v) {
    const Tensors varied(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(n));
    const Tensors weights(v.begin() + static_cast<std::ptrdiff_t>(n), v.end());
    return gradients(recorded(f(varied)), varied, weights, /*create=*/true);
  };
  check_gradients(gradient, both, "second gradient");
}

void check_values(const Case& c, const std::vector<Input>& inputs, DType dtype, Layout layout,
                  Device device) {
  Tensors args, exact;
  bool changed = layout == Layout::contiguous;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor x = make_input(inputs[i], dtype, i).to(device);
    const Tensor arranged = arrange(x, layout);
    changed |= arranged.defined();
    args.push_back(arranged.defined() ? arranged : x);
    const Tensor host = args.back().to(Device::cpu()).contiguous().clone();
    exact.push_back(inputs[i].dtype ? host : host.to(f64));
  }
  if (!changed) return;
  const double tolerance = tolerance_of(c, dtype);
  const Tensors want = c.reference(exact), got = c.op(args);
  ASSERT_EQ(got.size(), want.size()) << "number of outputs";
  for (size_t k = 0; k < got.size(); ++k) {
    const DType expected = want[k].dtype() == f64 ? dtype : want[k].dtype();
    ASSERT_EQ(name(got[k].dtype()), name(expected)) << "dtype of output " << k;
    ASSERT_EQ(got[k].device(), device) << "device of output " << k;
    ASSERT_NO_FATAL_FAILURE(expect_near(got[k], want[k], tolerance, "output"));
  }
  const std::vector<size_t> which = differentiable(inputs);
  if (!c.gradient || which.empty() || !is_floating(dtype)) return;
  // Gradients in f64 from dense inputs are checked by finite differences; the others against them.
  Tensors x, x64;
  for (size_t i : which) {
    x.push_back(args[i].detach().set_requires_grad());
    x64.push_back(exact[i].detach().set_requires_grad());
    args[i] = x.back();
    exact[i] = x64.back();
  }
  const Tensors y64 = recorded(c.op(exact)), y = recorded(c.op(args));
  ASSERT_FALSE(y.empty()) << "no output requires a gradient";
  const Tensors w64 = cotangents(y64);
  const Tensors g64 = gradients(y64, x64, w64);
  const Tensors g = gradients(y, x, to_all(w64, dtype, device));
  for (size_t i = 0; i < g.size(); ++i)
    ASSERT_NO_FATAL_FAILURE(
        expect_near(g[i], g64[i], (size_of(dtype) < 4 ? 4 : 10) * tolerance, "gradient"));
}

/// Each input left out in turn: an error, or none where it may be left out.
void check_undefined(const Case& c) {
  const std::vector<Input>& inputs = c.inputs.front();
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors args;
    for (size_t k = 0; k < inputs.size(); ++k)
      args.push_back(k == i ? Tensor() : make_input(inputs[k], c.dtypes.front(), k));
    try {
      (void)c.op(args);
    } catch (const ValueError& error) {
      EXPECT_NE(std::string(error.what()).find("undefined"), std::string::npos) << error.what();
    }
  }
}

}  // namespace

void run(const Case& c) {
  ASSERT_TRUE(c.op && c.reference) << "a case needs an op and a reference";
  ASSERT_FALSE(c.inputs.empty()) << "a case needs inputs";
  check_undefined(c);
  for (const std::vector<Input>& inputs : c.inputs) {
    std::string shapes;
    for (const Input& in : inputs) shapes += in.shape.str();
    for (const Device device : devices())
      for (DType dtype : c.dtypes)
        for (Layout layout :
             {Layout::contiguous, Layout::transposed, Layout::strided, Layout::expanded}) {
          if (!c.views && layout != Layout::contiguous) continue;
          if (!c.expanded && layout == Layout::expanded) continue;
          SCOPED_TRACE(shapes + " " + std::string(name(dtype)) + " " +
                       kLayoutName[static_cast<int>(layout)] + " on " + device.str());
          ASSERT_NO_FATAL_FAILURE(check_values(c, inputs, dtype, layout, device));
        }
    SCOPED_TRACE(shapes);
    if (c.gradient) {
      ASSERT_NO_FATAL_FAILURE(check_derivatives(c, inputs));
    }
  }
}

std::vector<double> values(const Tensor& x) {
  return x.detach().to(Device::cpu()).to(f64).to_vector<double>();
}

Tensor array(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return Tensor::from<double>(values, shape).to(dtype);
}

std::vector<std::vector<Input>> unary_shapes(double low, double high) {
  std::vector<std::vector<Input>> all;
  for (const Shape& shape : {Shape{3, 5, 7}, Shape{2, 3}, Shape{4, 1, 2, 3}, Shape{}, Shape{0, 3}})
    all.push_back({{.shape = shape, .low = low, .high = high}});
  return all;
}

std::vector<std::vector<Input>> binary_shapes(double low, double high, double b_low,
                                              double b_high) {
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 5, 7}, {3, 5, 7}}, {{4, 7}, {7}},       {{4, 7}, {4, 1}}, {{7}, {4, 7}},
      {{3, 1, 5}, {4, 1}},    {{2, 3}, {}},        {{}, {2, 3}},     {{}, {}},
      {{0, 3}, {3}},          {{2, 3, 4}, {3, 1}}, {{2, 0}, {1, 1}}};
  std::vector<std::vector<Input>> all;
  for (const auto& [a, b] : shapes)
    all.push_back(
        {{.shape = a, .low = low, .high = high}, {.shape = b, .low = b_low, .high = b_high}});
  return all;
}

Function each(std::function<double(double)> f, DType dtype) {
  return [f, dtype](const Tensor& x) {
    std::vector<double> v = values(x);
    for (double& e : v) e = f(e);
    return array(v, x.shape(), dtype);
  };
}

Function each2(std::function<double(double, double)> f, DType dtype) {
  return [f, dtype](const Tensor& a, const Tensor& b) {
    const Shape shape = broadcast_shapes(a.shape(), b.shape(), "reference");
    const std::vector<double> va = values(a), vb = values(b);
    std::vector<double> y(static_cast<size_t>(shape.numel()));
    // Position of the row-major index i of `shape` in a tensor that is stretched to it.
    auto at = [&](const Shape& from, size_t i) {
      int64_t rest = static_cast<int64_t>(i), position = 0, step = 1;
      for (int d = shape.rank() - 1, k = from.rank() - 1; k >= 0; --d, --k) {
        if (from[k] != 1) position += rest % shape[d] * step;
        rest /= shape[d];
        step *= from[k];
      }
      return static_cast<size_t>(position);
    };
    for (size_t i = 0; i < y.size(); ++i) y[i] = f(va[at(a.shape(), i)], vb[at(b.shape(), i)]);
    return array(y, shape, dtype);
  };
}

double total(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

double largest(const std::vector<double>& v) {
  double best = -std::numeric_limits<double>::infinity();
  for (const double x : v) best = std::max(best, x);
  return best;
}

}  // namespace brim::contract
