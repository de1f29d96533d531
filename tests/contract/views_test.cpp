// The harness behind views.h.
#include "contract/views.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <brim/brim.h>

#include "contract/harness.h"
#include "layouts.h"
#include "public_ops.h"

namespace brim::contract {
namespace {

using tests::arrange;
using tests::kLayoutName;
using tests::kViews;
using tests::Layout;

std::vector<ViewCase> view_cases() {
  std::vector<ViewCase> all = elementwise_views();
  for (const auto& more : {moving_views(), layer_views()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// What two ways to the same sums may differ by, in results; gradients have more sums.
double rounding(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 4e-3;
    default:
      return 0;
  }
}

Tensors arranged(Tensors x, Layout layout) {
  for (Tensor& t : x)
    if (const Tensor view = arrange(t, layout); view.defined()) t = view;
  return x;
}

void expect_all_near(const Tensors& got, const Tensors& want, double tolerance,
                     const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t k = 0; k < got.size(); ++k)
    ASSERT_NO_FATAL_FAILURE(
        expect_near(got[k], want[k], tolerance, what + " " + std::to_string(k)));
}

/// What an op gives for its inputs: results, gradients, and in f64 gradients of gradients.
struct Outcome {
  Tensors results, first, second;
};

/// `layout`: of the gradients that flow into the results.
Outcome outcome(const ViewCase& c, const std::vector<Input>& inputs, Tensors args, Layout layout,
                bool second) {
  Outcome all;
  Tensors x;
  for (const size_t i : differentiable(inputs))
    if (is_floating(args[i].dtype())) x.push_back(args[i] = args[i].detach().set_requires_grad());
  const Tensors results = c.run(args);
  for (const Tensor& y : results) all.results.push_back(y.detach());
  const Tensors y = recorded(results);
  if (x.empty() || y.empty()) return all;
  const Tensors w = arranged(cotangents(y), layout);
  all.first = gradients(y, x, w, second);
  const Tensors again = recorded(all.first);
  if (second && !again.empty())
    all.second = gradients(again, x, arranged(cotangents(again), layout));
  for (Tensor& g : all.first) g = g.detach();
  return all;
}

/// Of the inputs, those that `chosen` says lie as `layout` tells.
void check_view(const ViewCase& c, const std::vector<Input>& inputs, DType dtype, Device device,
                Layout layout, const std::function<bool(size_t)>& chosen) {
  Tensors views, copies;
  bool changed = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor x = make_input(inputs[i], dtype, i).to(device);
    const Tensor view = chosen(i) ? arrange(x, layout) : Tensor();
    changed |= view.defined();
    views.push_back(view.defined() ? view : x);
    copies.push_back(views.back().contiguous().clone());
  }
  if (!changed) return;
  const double tolerance = rounding(dtype);
  const bool second = dtype == f64;
  const Outcome want = outcome(c, inputs, copies, Layout::contiguous, second);
  // Expanded gradients are other gradients.
  const bool same_numbers = layout < Layout::expanded;
  const Outcome got = outcome(c, inputs, views, same_numbers ? layout : Layout::contiguous, second);
  ASSERT_NO_FATAL_FAILURE(expect_all_near(got.results, want.results, tolerance, "result"));
  ASSERT_NO_FATAL_FAILURE(expect_all_near(got.first, want.first, 10 * tolerance, "gradient"));
  ASSERT_NO_FATAL_FAILURE(
      expect_all_near(got.second, want.second, 1000 * tolerance, "second gradient"));
}

class ViewsOf : public ::testing::TestWithParam<ViewCase> {};

TEST_P(ViewsOf, GiveWhatDenseCopiesGive) {
  const ViewCase& c = GetParam();
  for (const std::vector<Input>& inputs : c.inputs) {
    std::string shapes;
    for (const Input& in : inputs) shapes += in.shape.str();
    for (const Device device : devices())
      for (const DType dtype : {f32, f64, f16})
        for (const Layout layout : kViews) {
          if (dtype == f16 && device.kind == DeviceKind::sim) continue;  // the CPU's kernels
          SCOPED_TRACE(shapes + " " + std::string(name(dtype)) + " " +
                       kLayoutName[static_cast<int>(layout)] + " on " + device.str());
          const auto check = [&](const auto& chosen) {
            check_view(c, inputs, dtype, device, layout, chosen);
          };
          ASSERT_NO_FATAL_FAILURE(check([](size_t) { return true; }));
          for (size_t only = 0; inputs.size() > 1 && dtype == f32 && only < inputs.size(); ++only) {
            SCOPED_TRACE("input " + std::to_string(only));
            ASSERT_NO_FATAL_FAILURE(check([&](size_t i) { return i == only; }));
          }
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ViewsOf, ::testing::ValuesIn(view_cases()),
                         [](const auto& viewed) { return std::string(viewed.param.op); });

TEST(Views, EveryOpHasACase) {
  // Ops without inputs, that only look at shape and dtype, or of one dtype (tests/compress).
  const std::set<std::string> none = {"arange",
                                      "dequantize",
                                      "empty",
                                      "empty_like",
                                      "eye",
                                      "fake_quantize",
                                      "fake_quantize_weight",
                                      "full",
                                      "full_like",
                                      "int8_conv2d",
                                      "int8_linear",
                                      "linspace",
                                      "ones",
                                      "ones_like",
                                      "quantize",
                                      "rand",
                                      "rand_like",
                                      "randint",
                                      "randn",
                                      "randn_like",
                                      "randperm",
                                      "sparse_conv2d",
                                      "sparse_int8_conv2d",
                                      "sparse_int8_linear",
                                      "sparse_linear",
                                      "zeros",
                                      "zeros_like"};
  std::set<std::string> cases;
  for (const ViewCase& c : view_cases()) EXPECT_TRUE(cases.insert(c.op).second) << c.op << " twice";
  std::set<std::string> declared = tests::public_ops();
  for (const std::string& op : none) EXPECT_EQ(declared.erase(op), 1u) << op << " is not declared";
  for (const std::string& op : declared) EXPECT_TRUE(cases.count(op)) << op << " has no case";
  for (const std::string& op : cases) EXPECT_TRUE(declared.count(op)) << op << " is not declared";
}

// Members that write: into views, from views, and nothing beside them.
TEST(Views, InPlace) {
  using Write = std::function<void(Tensor&, const Tensor&)>;
  const std::pair<const char*, Write> writes[] = {
      {"fill_", [](Tensor& x, const Tensor&) { x.fill_(3); }},
      {"copy_", [](Tensor& x, const Tensor& y) { x.copy_(y); }},
      {"copy_ of another dtype", [](Tensor& x, const Tensor& y) { x.copy_(y.to(f64)); }},
      {"add_", [](Tensor& x, const Tensor& y) { x.add_(y, 2); }},
      {"sub_", [](Tensor& x, const Tensor& y) { x.sub_(y); }},
      {"mul_", [](Tensor& x, const Tensor& y) { x.mul_(y); }},
      {"add_ of a number", [](Tensor& x, const Tensor&) { x.add_(3); }},
      {"div_ by a number", [](Tensor& x, const Tensor&) { x.div_(3); }},
      {"mul_ by a number", [](Tensor& x, const Tensor&) { x.mul_(3); }},
      {"div_", [](Tensor& x, const Tensor& y) { x.div_(y); }},
      {"uniform_",
       [](Tensor& x, const Tensor&) {
         Generator generator(3);
         x.uniform_(1, 2, &generator);
       }},
      {"normal_", [](Tensor& x, const Tensor&) {
         Generator generator(3);
         x.normal_(1, 2, &generator);
       }}};
  const auto whole = [](const Tensor& x) {
    const Shape all = {static_cast<int64_t>(x.storage()->bytes() / size_of(x.dtype()))};
    return values(x.alias(all, {1}, 0));
  };
  for (const auto& [what, write] : writes)
    for (const Device device : devices())
      for (const DType dtype : {f32, f16})
        for (const int rank : kRanks)
          for (const Layout layout : kViews) {
            SCOPED_TRACE(std::string(what) + " " + shape_of_rank(rank).str() + " " +
                         kLayoutName[static_cast<int>(layout)] + " on " + device.str());
            const Input in{shape_of_rank(rank), 0.5, 2};
            Tensor dense = make_input(in, dtype, 0).to(device);
            const Tensor other = make_input(in, dtype, 1).to(device);
            Tensor from = arrange(other, layout);
            if (!from.defined()) continue;
            Tensor to = layout < Layout::expanded ? arrange(dense, layout) : dense.clone();
            std::vector<double> around = whole(to);
            write(to, from);
            write(dense, from.contiguous().clone());
            ASSERT_NO_FATAL_FAILURE(expect_near(to, dense, rounding(dtype), what));
            const std::vector<double> after = whole(to);
            const auto holes = [](const std::vector<double>& v) {
              return std::count_if(v.begin(), v.end(), [](double e) { return std::isnan(e); });
            };
            ASSERT_EQ(holes(after), holes(around)) << "it wrote beside the view";
          }
}

}  // namespace
}  // namespace brim::contract
