// Contract cases of normalisations, and the running statistics of batch_norm.
#include <brim/ops/norm.h>

#include <cmath>
#include <limits>

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>

#include "contract/contract.h"
#include "contract/harness.h"
#include "message_of.h"
#include "threads.h"

namespace brim::contract {
namespace {

/// (x - mean) / sqrt(var + eps) over groups of elements: group_of(i) in [0, groups).
std::vector<double> normalised(const Tensor& x, int64_t groups,
                               const std::function<int64_t(int64_t)>& group_of) {
  std::vector<double> v = values(x), mean(static_cast<size_t>(groups)), var = mean, n = mean;
  const auto at = [&](size_t i) { return static_cast<size_t>(group_of(static_cast<int64_t>(i))); };
  for (size_t i = 0; i < v.size(); ++i) {
    mean[at(i)] += v[i];
    n[at(i)] += 1;
  }
  for (size_t g = 0; g < mean.size(); ++g) mean[g] /= n[g];
  for (size_t i = 0; i < v.size(); ++i) var[at(i)] += std::pow(v[i] - mean[at(i)], 2) / n[at(i)];
  for (size_t i = 0; i < v.size(); ++i) v[i] = (v[i] - mean[at(i)]) / std::sqrt(var[at(i)] + 1e-5);
  return v;
}

Function batch_norm_reference() {
  return [](Tensor x, Tensor w, Tensor b) {
    const int64_t c = x.shape()[1], s = x.numel() / std::max<int64_t>(1, c * x.shape()[0]);
    const auto channel = [=](int64_t i) { return i / std::max<int64_t>(s, 1) % c; };
    std::vector<double> v = normalised(x, c, channel), wv = values(w), bv = values(b);
    for (size_t i = 0; i < v.size(); ++i) {
      const size_t k = static_cast<size_t>(channel(static_cast<int64_t>(i)));
      v[i] = v[i] * wv[k] + bv[k];
    }
    return array(v, x.shape());
  };
}

CONTRACT(batch_norm_training) {
  return {.op = [](Tensor x, Tensor w,
                   Tensor b) { return batch_norm(x, w, b, {}, {}, {.training = true}); },
          .inputs = {{{{4, 3, 5, 7}}, {{3}}, {{3}}},
                     {{{2, 5, 33}}, {{5}}, {{5}}},
                     {{{7, 5}}, {{5}}, {{5}}},
                     {{{3, 70}}, {{70}}, {{70}}}},
          .reference = batch_norm_reference(),
          .tolerance = 3e-5,
          .tolerance_f64 = 1e-11,
          .expanded = false};
}
CONTRACT(batch_norm_eval) {
  return {.op =
              [](Tensor x, Tensor w, Tensor b) {
                return batch_norm(x, w, b, full_like(w, 0.5), full_like(w, 4), {.eps = 0});
              },
          .inputs = {{{{2, 3, 5}}, {{3}}, {{3}}},
                     {{{4, 3}}, {{3}}, {{3}}},
                     {{{0, 3, 2}}, {{3}}, {{3}}}},
          .reference =
              [](Tensor x, Tensor w, Tensor b) {
                std::vector<double> v = values(x), wv = values(w), bv = values(b);
                const int64_t s = x.rank() == 3 ? x.shape()[2] : 1;
                for (size_t i = 0; i < v.size(); ++i) {
                  const size_t k = static_cast<size_t>(static_cast<int64_t>(i) / s % 3);
                  v[i] = (v[i] - 0.5) / 2 * wv[k] + bv[k];
                }
                return array(v, x.shape());
              }};
}

Function layer_norm_reference(int64_t n) {
  return [=](Tensor x, Tensor w, Tensor b) {
    std::vector<double> v = normalised(x, x.numel() / n, [=](int64_t i) { return i / n; }),
                        wv = values(w), bv = values(b);
    for (size_t i = 0; i < v.size(); ++i) {
      const size_t k = i % static_cast<size_t>(n);
      v[i] = v[i] * wv[k] + bv[k];
    }
    return array(v, x.shape());
  };
}

CONTRACT(layer_norm) {
  return {.op = [](Tensor x, Tensor w, Tensor b) { return layer_norm(x, {21}, w, b); },
          .inputs = {{{{4, 21}}, {{21}}, {{21}}},
                     {{{2, 3, 21}}, {{21}}, {{21}}},
                     {{{21}}, {{21}}, {{21}}}},
          .reference = layer_norm_reference(21),
          .tolerance = 3e-5,
          .tolerance_f64 = 1e-11,
          .expanded = false};
}
CONTRACT(layer_norm_two_axes) {
  return {.op =
              [](Tensor x, Tensor w, Tensor b) {
                return layer_norm(x, {3, 5}, w, b);
              },
          .inputs = {{{{70, 3, 5}}, {{3, 5}}, {{3, 5}}}},
          .reference = layer_norm_reference(15),
          .tolerance = 3e-5,
          .tolerance_f64 = 1e-11,
          .second_order = false,
          .expanded = false};
}
CONTRACT(group_norm) {
  return {.op = [](Tensor x) { return group_norm(x, 2); },
          .inputs = {{{{3, 4, 5}}}},
          .reference =
              [](Tensor x) {
                return array(normalised(x, 6, [](int64_t i) { return i / 10; }), x.shape());
              },
          .tolerance = 3e-5,
          .tolerance_f64 = 1e-11,
          .expanded = false};
}
CONTRACT(group_norm_with_parameters) {
  return {.op = [](Tensor x, Tensor w, Tensor b) { return group_norm(x, 2, w, b); },
          .inputs = {{{{3, 4, 5}}, {{4}}, {{4}}}, {{{2, 4, 3, 2}}, {{4}}, {{4}}}},
          .reference =
              [](Tensor x, Tensor w, Tensor b) {
                const int64_t groups = 2 * x.size(0), size = x.numel() / groups;
                const std::vector<double> wv = values(w), bv = values(b);
                std::vector<double> y = normalised(x, groups, [=](int64_t i) { return i / size; });
                for (size_t i = 0; i < y.size(); ++i) {
                  const size_t c = i / static_cast<size_t>(size / 2) % 4;
                  y[i] = y[i] * wv[c] + bv[c];
                }
                return array(y, x.shape());
              },
          .tolerance = 3e-5,
          .tolerance_f64 = 1e-11,
          .expanded = false};
}
std::vector<double> rms_normalised(const Tensor& x, int64_t n) {
  std::vector<double> v = values(x);
  const size_t size = static_cast<size_t>(n);
  for (size_t first = 0; first < v.size(); first += size) {
    double s = 0;
    for (size_t i = 0; i < size; ++i) s += v[first + i] * v[first + i] / static_cast<double>(n);
    for (size_t i = 0; i < size; ++i) v[first + i] /= std::sqrt(s + 0.1);
  }
  return v;
}
Function rms_norm_reference(int64_t n) {
  return [n](Tensor x, Tensor w) {
    std::vector<double> v = rms_normalised(x, n), wv = values(w);
    for (size_t i = 0; i < v.size(); ++i) v[i] *= wv[i % static_cast<size_t>(n)];
    return array(v, x.shape());
  };
}
CONTRACT(rms_norm) {
  return {.op = [](Tensor x, Tensor w) { return rms_norm(x, {5}, w, 0.1); },
          .inputs = {{{{3, 5}}, {{5}}}, {{{2, 67, 5}}, {{5}}}},
          .reference = rms_norm_reference(5)};
}
CONTRACT(rms_norm_of_long_rows) {
  return {.op = [](Tensor x, Tensor w) { return rms_norm(x, {37}, w, 0.1); },
          .inputs = {{{{3, 37}}, {{37}}}},
          .reference = rms_norm_reference(37)};
}
CONTRACT(rms_norm_two_axes) {
  return {.op =
              [](Tensor x) {
                return rms_norm(x, {3, 5}, {}, 0.1);
              },
          .inputs = {{{{2, 3, 5}}}},
          .reference = [](Tensor x) { return array(rms_normalised(x, 15), x.shape()); }};
}

// Fixed statistics do not depend on x.
TEST(BatchNorm, GradientsOfEvaluationAreFiniteWhereXIsNot) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const Device device : devices())
    for (const DType dtype : {f16, bf16, f32, f64})
      for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
        SCOPED_TRACE(std::string(name(dtype)) + " on " + device.str());
        const TensorOptions like{.dtype = dtype, .device = device};
        Tensor from = ones({2, 3, 5, 5}, like);
        from[1][1][4].fill_(kInf);
        from[0][2][0].fill_(-kInf);
        const Tensor x = from.to(format).detach().set_requires_grad();
        const Tensor y =
            batch_norm(x, full({3}, 2, like), {}, zeros({3}, like), ones({3}, like), {.eps = 0});
        y.backward(full(y.shape(), 3, like));
        EXPECT_EQ(values(x.grad()), std::vector<double>(150, 6));
      }
}

TEST(BatchNorm, RunningStatistics) {
  const Tensor x = Tensor::from<float>({1, 3, 2, 8}, {2, 2});  // channels {1, 2} and {3, 8}
  Tensor mean = zeros({2}), var = ones({2});
  batch_norm(x, {}, {}, mean, var, {.training = true, .momentum = 0.5});
  EXPECT_EQ(mean.to_vector<float>(), (std::vector<float>{0.75, 2.75}));
  EXPECT_EQ(var.to_vector<float>(), (std::vector<float>{0.75, 6.75}));  // unbiased: 0.5 and 12.5
  const std::vector<float> before = mean.to_vector<float>();
  batch_norm(x, {}, {}, mean, var);
  EXPECT_EQ(mean.to_vector<float>(), before);
}

TEST(BatchNorm, AnEmptyBatchChangesNothing) {
  for (const Device device : devices())
    for (const DType dtype : {f32, f64, f16})
      for (const Shape& shape : {Shape{0, 3, 2, 2}, Shape{0, 3}, Shape{2, 3, 0}}) {
        const TensorOptions like{.dtype = dtype, .device = device};
        Tensor x = zeros(shape, like).set_requires_grad(), w = ones({3}, like).set_requires_grad(),
               b = zeros({3}, like).set_requires_grad();
        Tensor mean = full({3}, 5, like), var = full({3}, 7, like);
        const Tensor y = batch_norm(x, w, b, mean, var, {.training = true});
        y.backward(zeros(shape, like), {.create_graph = true});
        SCOPED_TRACE(shape.str() + " " + std::string(name(dtype)) + " on " + device.str());
        EXPECT_EQ(x.grad().shape(), shape);
        EXPECT_EQ(values(w.grad()), std::vector<double>(3, 0));
        EXPECT_EQ(values(b.grad()), std::vector<double>(3, 0));
        for (Tensor* t : {&x, &w, &b}) t->zero_grad();  // their graph holds them
        batch_norm(x, w, b, mean, var, {.training = true}).backward(zeros(shape, like));
        EXPECT_EQ(values(w.grad()), std::vector<double>(3, 0));
        EXPECT_EQ(values(mean), std::vector<double>(3, 5));
        EXPECT_EQ(values(var), std::vector<double>(3, 7));
      }
}

/// y, the gradients of x, weight and bias, and the running statistics, all f64.
std::vector<Tensor> run_batch_norm(const Tensor& x_of, const Tensor& dy, DType parameters,
                                   bool training) {
  const auto leaf = [&](std::vector<double> v) {
    return array(v, {3}).to(parameters).set_requires_grad();
  };
  const Tensor x = x_of.detach().set_requires_grad(), w = leaf({0.5, -2, 1}), b = leaf({3, 0, -1});
  Tensor mean = array({1, 2, 3}, {3}).to(parameters), var = array({4, 1, 2}, {3}).to(parameters);
  const Tensor y = batch_norm(x, w, b, mean, var, {.training = training});
  EXPECT_EQ(y.dtype(), x.dtype());
  EXPECT_EQ(y.is_contiguous(), x.is_contiguous());
  y.backward(dy);
  EXPECT_EQ(x.grad().dtype(), x.dtype());
  EXPECT_EQ(w.grad().dtype(), parameters);
  EXPECT_EQ(b.grad().dtype(), parameters);
  std::vector<Tensor> all{y.detach(), x.grad(), w.grad(), b.grad(), mean, var};
  for (Tensor& t : all) t = t.to(f64);
  return all;
}

TEST(BatchNorm, TakesF32ParametersBeside16Bits) {
  for (const DType dtype : {f16, bf16})
    for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc})
      for (const bool training : {true, false}) {
        // Means and sums that 16 bits could not hold.
        const Tensor x = (randn({5, 3, 17, 19}) + 9.0).to(dtype).to(format);
        const Tensor dy = (randn({5, 3, 17, 19}) + 1.0).to(dtype).to(format);
        const auto actual = run_batch_norm(x, dy, f32, training);
        const auto expected = run_batch_norm(x.to(f64), dy.to(f64), f64, training);
        const double once = dtype == f16 ? 1.0 / 2048 : 1.0 / 256;  // rounded to 16 bits
        for (size_t i = 0; i < actual.size(); ++i)
          EXPECT_LE(amax(brim::abs(actual[i] - expected[i])).item(),
                    (i < 2 ? once : 1e-5) * amax(abs(expected[i])).item() + 1e-3)
              << name(dtype) << (training ? " training" : "") << ", result " << i;
      }
}

TEST(BatchNorm, SecondDerivativesBeside16Bits) {
  manual_seed(3);  // some draws cancel more than 16 bits can bear
  const auto second = [](const Tensor& x_of, DType parameters, bool training) {
    const Tensor x = x_of.detach().set_requires_grad();
    const Tensor w = array({0.5, -2, 1}, {3}).to(parameters).set_requires_grad();
    const Tensor mean = array({1, 2, 3}, {3}).to(parameters), var = full_like(mean, 2);
    const Tensor y = batch_norm(x, w, {}, mean.clone(), var.clone(), {.training = training});
    const std::vector<Tensor> of = {x, w}, value = {brim::sum(pow(y.to(f64), 3)) * 0.01};
    const auto d = brim::autograd::grad(value, of, {}, {.create_graph = true});
    EXPECT_EQ(d[0].dtype(), x.dtype());
    EXPECT_EQ(d[1].dtype(), parameters);
    const std::vector<Tensor> again = {brim::sum(brim::square(d[0].to(f64))) +
                                       brim::sum(brim::square(d[1].to(f64)))};
    auto e = brim::autograd::grad(again, of);
    for (Tensor& t : e) t = t.to(f64);
    return e;
  };
  for (const DType dtype : {f16, bf16})
    for (const bool training : {true, false}) {
      const Tensor x = randn({4, 3, 5}).to(dtype);
      const auto actual = second(x, f32, training);
      const auto expected = second(x.to(f64), f64, training);
      for (size_t i = 0; i < actual.size(); ++i)
        EXPECT_LE(amax(brim::abs(actual[i] - expected[i])).item(),
                  (dtype == f16 ? 5e-3 : 4e-2) * amax(abs(expected[i])).item())
            << name(dtype) << (training ? " training" : "") << ", result " << i;
    }
}

TEST(BatchNorm, OtherMixturesAreErrors) {
  const auto message = [](DType x, DType w, DType b, DType running) {
    Tensor mean = zeros({3}, {.dtype = running}), var = ones({3}, {.dtype = running});
    return tests::message_of<DTypeError>([&] {
      (void)batch_norm(zeros({2, 3}, {.dtype = x}), ones({3}, {.dtype = w}),
                       ones({3}, {.dtype = b}), mean, var);
    });
  };
  EXPECT_EQ(message(f32, f16, f16, f16),
            "[batch_norm] x is f32 and its parameters are f16; cast them with .to(f32)");
  EXPECT_EQ(message(bf16, f16, f16, f16),
            "[batch_norm] x is bf16 and its parameters are f16; cast them with .to(bf16) or "
            ".to(f32)");
  EXPECT_EQ(message(f16, f32, f16, f32),
            "[batch_norm] bias is f16, but other parameters are f32; cast it with .to(f32)");
  EXPECT_EQ(message(f16, f16, f16, f32),
            "[batch_norm] running_mean is f32, but other parameters are f16; cast it with "
            ".to(f16)");
  EXPECT_NE(message(f64, f32, f32, f32), "no error");
  EXPECT_NE(message(f32, f32, f32, f64), "no error");
  EXPECT_EQ(message(f16, f16, f16, f16), "no error");
  EXPECT_EQ(message(bf16, f32, f32, f32), "no error");
}

// Their sums round, and 1 / sqrt(eps) makes much of what is left of them.
TEST(Norms, EqualElementsComeOutAsTheBias) {
  for (const Device device : devices())
    for (const DType dtype : {f32, f16})
      for (const Shape& shape : {Shape{64, 3}, Shape{4, 3, 70}, Shape{3, 3, 25, 31}})
        for (const MemoryFormat format : {MemoryFormat::nchw, MemoryFormat::nhwc}) {
          if (format == MemoryFormat::nhwc && shape.rank() != 4) continue;
          SCOPED_TRACE(shape.str() + " " + std::string(name(dtype)) + " on " + device.str());
          const TensorOptions like{.dtype = dtype, .device = device};
          const Tensor x = full(shape, 99.833, like).to(format).set_requires_grad();
          const Tensor bias = full({3}, 0.5, like), mean = zeros({3}, like), var = ones({3}, like);
          const auto is_the_bias = [](const Tensor& y) {
            EXPECT_EQ(amax(abs(y.to(f64) - 0.5)).item(), 0);
          };
          const Tensor w = ones({3}, like).set_requires_grad();
          const Tensor y = batch_norm(x, w, bias, mean, var, {.training = true, .momentum = 1});
          is_the_bias(y);
          EXPECT_EQ(values(var), std::vector<double>(3, 0));
          EXPECT_EQ(values(mean), values(full({3}, 99.833, like)));
          const int64_t last = shape[shape.rank() - 1];
          const Tensor v = ones({last}, like).set_requires_grad();
          const Tensor z = layer_norm(x, {last}, v, full({last}, 0.5, like));
          is_the_bias(z);
          is_the_bias(group_norm(x, 1, {}, bias));
          for (const bool create_graph : {false, true}) {
            const std::vector<Tensor> sums = {sum(y.to(f64)), sum(z.to(f64))}, of = {w, v};
            const auto d = brim::autograd::grad(
                sums, of, {}, {.retain_graph = true, .create_graph = create_graph});
            EXPECT_EQ(values(d[0]), std::vector<double>(3, 0));
            EXPECT_EQ(values(d[1]), std::vector<double>(static_cast<size_t>(last), 0));
          }
        }
}

// The squares of distances between its parts are no numbers of f32; the variance is one of f64.
TEST(BatchNorm, PartsMayLieFarApart) {
  const Tensor x = cat({zeros({1, 2, 1024}), full({1, 2, 1024}, 1e20)}, 0);
  for (const Tensor& of : {x, x.reshape({2, 2, 32, 32}).to(MemoryFormat::nhwc)}) {
    const Tensor y = batch_norm(of, {}, {}, {}, {}, {.training = true});
    EXPECT_EQ(amax(abs(abs(y) - 1)).item(), 0);
  }
}

TEST(BatchNorm, ChecksItsInput) {
  EXPECT_THROW(batch_norm(zeros({1, 3}), {}, {}, {}, {}, {.training = true}), ShapeError);
  EXPECT_THROW(batch_norm(zeros({2, 3}), {}, {}, {}, {}), ValueError);
  EXPECT_THROW(batch_norm(zeros({2, 3}), zeros({4}), {}, {}, {}, {.training = true}), ShapeError);
  EXPECT_THROW(layer_norm(zeros({2, 3}), {2}), ShapeError);
}

TEST(Norms, ThreadsDoNotChangeBits) {
  const Tensor x = randn({40, 6, 30, 30}).set_requires_grad();
  const Tensor rows = randn({600, 200}).set_requires_grad(), w = ones({200}).set_requires_grad();
  std::vector<std::vector<float>> results[3];
  for (int threads = 1; threads <= 3; ++threads) {
    const tests::Threads guard(threads);
    Tensor a = x, b = rows, c = w;
    a.zero_grad();
    b.zero_grad();
    c.zero_grad();
    const Tensor y = batch_norm(x, {}, {}, {}, {}, {.training = true});
    const Tensor z = layer_norm(rows, {200}, w);
    y.backward(y.detach());
    z.backward(z.detach() + 1);
    results[threads - 1] = {y.to_vector<float>(), z.to_vector<float>(), x.grad().to_vector<float>(),
                            rows.grad().to_vector<float>(), w.grad().to_vector<float>()};
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace brim::contract
