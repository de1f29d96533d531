// Contract cases of losses, and their edges: labels, reductions, extreme logits.
#include <brim/ops/loss.h>

#include <cmath>

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>
#include <brim/ops/softmax.h>
#include <brim/ops/unary.h>

#include "contract/contract.h"

namespace brim::contract {
namespace {

/// The definition, one row at a time; x: (N, C).
Function cross_entropy_reference(std::vector<int64_t> labels, CrossEntropyOptions options) {
  return [=](Tensor x) {
    const int64_t n = x.shape()[0], classes = x.shape()[1];
    const std::vector<double> v = values(x);
    const std::vector<double> w = options.weight.defined()
                                      ? values(options.weight)
                                      : std::vector<double>(static_cast<size_t>(classes), 1);
    std::vector<double> losses;
    double total = 0, weights = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t label = labels[static_cast<size_t>(i)];
      double sum = 0, loss = 0;
      for (int64_t k = 0; k < classes; ++k)
        sum += std::exp(v[static_cast<size_t>(i * classes + k)]);
      for (int64_t k = 0; k < classes; ++k) {
        const double share = (k == label ? 1 - options.label_smoothing : 0) +
                             options.label_smoothing / static_cast<double>(classes);
        loss += w[static_cast<size_t>(k)] * share *
                (std::log(sum) - v[static_cast<size_t>(i * classes + k)]);
      }
      const bool ignored = label == options.ignore_index;
      losses.push_back(ignored ? 0 : loss);
      total += losses.back();
      weights += ignored ? 0 : w[static_cast<size_t>(label)];
    }
    if (options.reduction == Reduction::none) return array(losses, {n});
    return array({options.reduction == Reduction::sum ? total : total / weights}, {});
  };
}

Case cross_entropy_case(CrossEntropyOptions options) {
  const std::vector<int64_t> labels = {3, 1, 0, 4, 1, 2, 2};
  const Tensor weight = options.weight;
  return {.op =
              [=](Tensor x) {
                CrossEntropyOptions o = options;
                if (weight.defined()) o.weight = weight.to(x.dtype()).to(x.device());
                return cross_entropy(x, Tensor::from(labels, {7}, x.device()), o);
              },
          .inputs = {{{{7, 5}}}, {{{7, 21}}}},
          .reference = [=](Tensor x) { return cross_entropy_reference(labels, options)({x})[0]; },
          .expanded = false};
}

Tensor weights(int64_t n) {
  std::vector<double> w;
  for (int64_t i = 0; i < n; ++i) w.push_back(0.5 + 0.25 * static_cast<double>(i));
  return array(w, {n});
}

CONTRACT(cross_entropy) { return cross_entropy_case({}); }
CONTRACT(cross_entropy_sum) { return cross_entropy_case({.reduction = Reduction::sum}); }
CONTRACT(cross_entropy_none) {
  return cross_entropy_case({.ignore_index = 1, .reduction = Reduction::none});
}
CONTRACT(cross_entropy_smooth) {
  return cross_entropy_case({.ignore_index = 2, .label_smoothing = 0.2});
}
CONTRACT(cross_entropy_weight) {
  Case c = cross_entropy_case({.weight = weights(5), .ignore_index = 2, .label_smoothing = 0.3});
  c.inputs.pop_back();  // the weight has 5 classes
  return c;
}
CONTRACT(cross_entropy_weight_none) {
  Case c = cross_entropy_case(
      {.weight = weights(5), .label_smoothing = 0.3, .reduction = Reduction::none});
  c.inputs.pop_back();
  return c;
}
CONTRACT(cross_entropy_image) {  // (N, C, d1, d2)
  const Tensor labels = Tensor::from<int64_t>({0, 2, 1, 1, 0, -100, 2, 2}, {2, 2, 2});
  return {.op =
              [=](Tensor x) {
                return cross_entropy(x, labels.to(x.device()), {.reduction = Reduction::none});
              },
          .inputs = {{{{2, 3, 2, 2}}}},
          .reference =
              [=](Tensor x) {
                const Tensor rows = x.permute({0, 2, 3, 1}).contiguous().reshape({8, 3});
                return cross_entropy_reference({0, 2, 1, 1, 0, -100, 2, 2},
                                               {.reduction = Reduction::none})({rows})[0]
                    .reshape({2, 2, 2});
              },
          .expanded = false};
}

/// Labels of 2 x 45 pixels, one in seven of which is 1.
std::vector<int64_t> pixel_labels() {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 90; ++i) labels.push_back(i % 7 == 3 ? 1 : i % 2 * 2);
  return labels;
}
/// (N, C, S) -> (N S, C)
Tensor rows_of(const Tensor& x) {
  return x.permute({0, 2, 1}).contiguous().reshape({x.size(0) * x.size(2), x.size(1)});
}
Case cross_entropy_of_planes(CrossEntropyOptions options) {
  const Tensor labels = Tensor::from(pixel_labels(), {2, 45}), weight = options.weight;
  return {.op =
              [=](Tensor x) {
                CrossEntropyOptions o = options;
                if (weight.defined()) o.weight = weight.to(x.dtype()).to(x.device());
                return cross_entropy(x, labels.to(x.device()), o);
              },
          .inputs = {{{{2, 3, 45}}}},
          .reference =
              [=](Tensor x) {
                const Tensor y = cross_entropy_reference(pixel_labels(), options)({rows_of(x)})[0];
                return options.reduction == Reduction::none ? y.reshape({2, 45}) : y;
              },
          .expanded = false};
}
CONTRACT(cross_entropy_planes) { return cross_entropy_of_planes({.ignore_index = 1}); }
CONTRACT(cross_entropy_planes_none) {
  return cross_entropy_of_planes({.weight = weights(3), .reduction = Reduction::none});
}
CONTRACT(cross_entropy_planes_smooth) {
  return cross_entropy_of_planes({.weight = weights(3), .ignore_index = 2, .label_smoothing = 0.3});
}
CONTRACT(nll_loss_planes) {
  const Tensor labels = Tensor::from(pixel_labels(), {2, 45});
  const auto loss = [](const Tensor& x, const Tensor& y) {
    return nll_loss(x, y.to(x.device()),
                    {.weight = weights(3).to(x.dtype()).to(x.device()), .ignore_index = 1});
  };
  return {.op = [=](Tensor x) { return loss(x, labels); },
          .inputs = {{{{2, 3, 45}}}},
          .reference = [=](Tensor x) { return loss(rows_of(x), labels.reshape({90})); },
          .expanded = false};
}
CONTRACT(cross_entropy_probabilities) {
  return {.op = [](Tensor x, Tensor p) { return cross_entropy(x, p, {.label_smoothing = 0.1}); },
          .inputs = {{{{3, 4}}, {{3, 4}, 0, 1}}},
          .reference =
              [](Tensor x, Tensor p) {
                const std::vector<double> logp = values(log_softmax(x, 1)), t = values(p);
                double sum = 0;
                for (size_t i = 0; i < t.size(); ++i) sum -= logp[i] * (0.9 * t[i] + 0.1 / 4);
                return array({sum / 3}, {});
              }};
}
CONTRACT(nll_loss) {
  const std::vector<int64_t> labels = {2, 0, 1, 2};
  return {.op =
              [=](Tensor x) {
                return nll_loss(
                    x, Tensor::from(labels, {4}, x.device()),
                    {.weight = weights(3).to(x.dtype()).to(x.device()), .ignore_index = 0});
              },
          .inputs = {{{{4, 3}}}},
          .reference =
              [=](Tensor x) {
                const std::vector<double> v = values(x);
                return array({-(1.0 * v[2] + 0.75 * v[7] + 1.0 * v[11]) / 2.75}, {});
              },
          .expanded = false};
}

Case pair_case(Function op, std::function<double(double, double)> f) {
  return {.op = std::move(op),
          .inputs = {{{{3, 5}}, {{3, 5}, 0, 1}}, {{{37}}, {{37}, 0, 1}}},
          .reference = [f](Tensor x, Tensor y) {
            const std::vector<double> a = values(x), b = values(y);
            double sum = 0;
            for (size_t i = 0; i < a.size(); ++i) sum += f(a[i], b[i]);
            return array({sum / static_cast<double>(a.size())}, {});
          }};
}

CONTRACT(mse_loss) {
  return pair_case([](Tensor x, Tensor y) { return mse_loss(x, y); },
                   [](double x, double y) { return (x - y) * (x - y); });
}
CONTRACT(l1_loss) {
  return pair_case([](Tensor x, Tensor y) { return l1_loss(x, y); },
                   [](double x, double y) { return std::abs(x - y); });
}
CONTRACT(smooth_l1_loss) {
  return pair_case([](Tensor x, Tensor y) { return smooth_l1_loss(x, y, 0.7); },
                   [](double x, double y) {
                     const double d = std::abs(x - y);
                     return d < 0.7 ? d * d / 1.4 : d - 0.35;
                   });
}
CONTRACT(huber_loss) {
  return pair_case([](Tensor x, Tensor y) { return huber_loss(x, y, 0.7); },
                   [](double x, double y) {
                     const double d = std::abs(x - y);
                     return d < 0.7 ? d * d / 2 : 0.7 * (d - 0.35);
                   });
}
CONTRACT(bce_with_logits) {
  return pair_case([](Tensor x, Tensor y) { return bce_with_logits(x, y); },
                   [](double x, double t) {
                     return t * std::log1p(std::exp(-x)) + (1 - t) * std::log1p(std::exp(x));
                   });
}
CONTRACT(bce_with_logits_weights) {
  return pair_case(
      [](Tensor x, Tensor y) {
        return bce_with_logits(
            x, y,
            {.weight = full({}, 2, {.dtype = x.dtype(), .device = x.device()}),
             .pos_weight = full({1}, 3, {.dtype = x.dtype(), .device = x.device()})});
      },
      [](double x, double t) {
        return 2 * (3 * t * std::log1p(std::exp(-x)) + (1 - t) * std::log1p(std::exp(x)));
      });
}

TEST(Losses, OneDimensionalLogitsMayBeAnyView) {
  const Tensor x = neg(arange(0., 6., 1.)).slice(0, 0, 6, 2);
  EXPECT_EQ(nll_loss(x, full({}, 2, {.dtype = i64})).item(), 4);
  EXPECT_EQ(cross_entropy(x, full({}, 2, {.dtype = i64})).item(),
            cross_entropy(x.clone(), full({}, 2, {.dtype = i64})).item());
}

TEST(Losses, ReductionsAndExtremes) {
  const Tensor x = Tensor::from<float>({1, 5}, {2}), y = Tensor::from<float>({2, 3}, {2});
  EXPECT_EQ(values(mse_loss(x, y, Reduction::none)), (std::vector<double>{1, 4}));
  EXPECT_EQ(mse_loss(x, y, Reduction::sum).item(), 5);
  EXPECT_TRUE(std::isnan(mse_loss(zeros({0}), zeros({0})).item()));
  const Tensor extreme =
      bce_with_logits(Tensor::from<float>({100, -100, 0, 50}, {4}),
                      Tensor::from<float>({1, 0, 1, 0}, {4}), {.reduction = Reduction::none});
  const double expected[] = {0, 0, std::log(2.0), 50};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(values(extreme)[i], expected[i], 1e-6);
  EXPECT_THROW(bce_with_logits(x, zeros({3})), ShapeError);
  EXPECT_THROW(smooth_l1_loss(x, y, 0), ValueError);
  Tensor zero = zeros({1}).set_requires_grad();
  bce_with_logits(zero, ones({1})).backward();
  EXPECT_EQ(zero.grad().item(), -0.5);
}

TEST(Losses, SmoothL1OfAnInfiniteDifference) {
  Tensor x = Tensor::from<float>({INFINITY, -INFINITY, 0.25, NAN}, {4}).set_requires_grad();
  const Tensor y = smooth_l1_loss(x, zeros({4}), 0.5, Reduction::none);
  y.backward(ones({4}));
  const std::vector<double> g = values(x.grad());
  EXPECT_EQ(std::vector<double>(g.begin(), g.begin() + 3), (std::vector<double>{1, -1, 0.5}));
  EXPECT_TRUE(std::isnan(g[3]));
}

TEST(CrossEntropy, LabelOutOfRangeNamesTheLabel) {
  const Tensor x = zeros({3, 5});
  for (const int64_t wrong : {int64_t{5}, int64_t{-1}, int64_t{1} << 40}) {
    try {
      cross_entropy(x, Tensor::from<int64_t>({0, wrong, 1}, {3}));
      FAIL() << wrong;
    } catch (const IndexError& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find("label " + std::to_string(wrong) + " at position 1"), std::string::npos)
          << what;
      EXPECT_NE(what.find("5 classes"), std::string::npos) << what;
    }
  }
}

TEST(CrossEntropy, ChecksItsInput) {
  const Tensor x = zeros({3, 5});
  EXPECT_THROW(cross_entropy(x, zeros({4}, {.dtype = i64})), ShapeError);
  EXPECT_THROW(cross_entropy(x, zeros({3}, {.dtype = u8})), DTypeError);
  EXPECT_THROW(cross_entropy(x, zeros({3}, {.dtype = i64}), {.weight = zeros({4})}), ShapeError);
  EXPECT_THROW(cross_entropy(x, zeros({3}, {.dtype = i64}), {.label_smoothing = 2}), ValueError);
  EXPECT_THROW(cross_entropy(zeros({3}, {.dtype = i64}), x), DTypeError);
}

TEST(CrossEntropy, NanReachesTheGradient) {
  Tensor x = Tensor::from<float>({1, NAN, 3, 1, 2, 3}, {2, 3}).set_requires_grad();
  const Tensor loss = cross_entropy(x, Tensor::from<int64_t>({0, 1}, {2}));
  EXPECT_TRUE(std::isnan(loss.item()));
  loss.backward();
  const std::vector<double> g = values(x.grad());
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(g[i]), i < 3) << i;
}

TEST(CrossEntropy, IgnoredRowsLeaveNothingUnwritten) {
  const Tensor labels = Tensor::from<int64_t>({0, 1, -100, -100, -100, -100, -100, 2}, {8});
  for (int i = 0; i < 3; ++i) {
    {
      std::vector<Tensor> used;  // memory that the loss will get, full of NaN
      for (int k = 0; k < 8; ++k) used.push_back(full({17}, NAN));
    }
    const AnomalyMode guard;
    EXPECT_NEAR(cross_entropy(zeros({8, 3}), labels).item(), std::log(3.0), 1e-6);
  }
}

TEST(CrossEntropy, EdgesAsInPyTorch) {
  const Tensor none = zeros({0}, {.dtype = i64});
  EXPECT_TRUE(std::isnan(cross_entropy(zeros({0, 5}), none).item()));
  EXPECT_EQ(cross_entropy(zeros({0, 5}), none, {.reduction = Reduction::sum}).item(), 0);
  const Tensor x = Tensor::from<float>({500, -500, 3e38f, 0}, {2, 2}).set_requires_grad();
  const Tensor loss = cross_entropy(x, Tensor::from<int32_t>({1, 0}, {2}));
  EXPECT_EQ(loss.item(), 500);
  loss.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0.5, -0.5, 0, 0}));
  const Tensor one = Tensor::from<float>({0, 0}, {2});
  EXPECT_NEAR(cross_entropy(one, Tensor::from<int64_t>({1}, {})).item(), std::log(2.0), 1e-6);
}

TEST(NllLoss, OfNoImages) {
  const Tensor x = zeros({0, 3, 4, 4}).set_requires_grad();
  const Tensor loss = nll_loss(x, zeros({0, 4, 4}, {.dtype = i64}), {.reduction = Reduction::sum});
  EXPECT_EQ(loss.item(), 0);
  loss.backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
}

}  // namespace
}  // namespace brim::contract
