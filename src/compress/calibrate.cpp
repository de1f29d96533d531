// Calibration: ranges by what was seen, what rounding loses, and what is faster.
#include <brim/autograd/autograd.h>
#include <brim/compress/quantize.h>
#include <brim/ops/binary.h>
#include <brim/ops/conv.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "compress/calibrate.h"
#include "compress/choose_by_passes.h"
#include "compress/shortest_times.h"
#include "core/check.h"
#include "core/clock.h"
#include "nn/layer.h"

namespace brim::compress {
namespace {

const Tensor& bias_of(const Prunable& layer) {
  return layer.linear ? layer.linear->bias : layer.conv->bias;
}

/// Of those that cannot be quantised, whatever goes into them.
std::string obstacle(const Prunable& layer) {
  const Tensor& weight = layer.weight();
  if (layer.groups() > 1)
    return fmt::format("convolutions with {} groups are not implemented", layer.groups());
  if (weight.dtype() != DType::f32) return fmt::format("its weight is {}", name(weight.dtype()));
  if (weight.device().kind == DeviceKind::cuda) return "not implemented on CUDA";
  if (weight.numel() == 0) return "it has no weights";
  const int64_t inputs = weight.numel() / weight.size(0);
  if (inputs > Int8Weight::kMaxInputs)
    return fmt::format("{} inputs of an output: their sum may not fit into 32 bits", inputs);
  return "";
}

std::vector<Watched> layers_of(nn::Module& network, const QuantizeOptions& o) {
  std::vector<Watched> all;
  for (const Prunable& layer : prunable_layers(network)) {
    Watched w{.layer = layer, .report = {.name = layer.name, .shape = layer.weight().shape()}};
    const bool is_kept = std::ranges::find(o.keep, layer.name) != o.keep.end();
    w.report.why = is_kept ? "as asked for" : obstacle(layer);
    all.push_back(std::move(w));
  }
  for (const std::string& name : o.keep) {
    const auto has_name = [&](const Watched& w) { return w.report.name == name; };
    BRIM_CHECK(std::ranges::any_of(all, has_name), ValueError,
               "[quantize] '{}' is no convolution or linear layer of the network", name);
  }
  return all;
}

/// Runs the network while `look` sees each layer that is not given up.
void watch(std::vector<Watched>& layers, const std::function<void()>& run,
           const std::function<void(Watched&, const Tensor& x, const Tensor& y)>& look) {
  std::vector<nn::Module::HookHandle> hooks;
  for (Watched& w : layers)
    if (w.is_open())
      hooks.push_back(w.module().register_forward_hook(
          [&w, &look](nn::Module&, const Tensor& x, const Tensor& y) {
            look(w, x, y);
            return Tensor();
          }));
  run();
}

void see_inputs(Watched& w, const Tensor& x, const Tensor&) {
  if (x.dtype() != DType::f32) {
    w.report.why = fmt::format("its inputs are {}", name(x.dtype()));
    return;
  }
  try {
    w.inputs.add(x);
  } catch (const ValueError&) {
    raise<ValueError>(
        "[quantize] the inputs of {} are not finite in the calibration: its data or the weights "
        "before it hold NaN or infinity",
        w.report.name);
  }
  if (!w.first.defined() && x.numel() > 0) w.first = x.detach();  // to be measured with
}

void choose_range(Watched& w, const QuantizeOptions& o) {
  if (!w.is_open()) return;
  if (w.inputs.count() == 0) {
    w.report.why = "the calibration did not run it";
    return;
  }
  w.report.min = w.inputs.min();
  w.report.max = w.inputs.max();
  if (w.report.min == w.report.max) {
    w.report.why = fmt::format("its inputs are {} in all of the calibration", w.report.min);
    return;
  }
  w.report.input = w.inputs.params(o.calibration, o.percentile);
  try {
    w.report.weight = Int8Weight::quantize(w.layer.weight());
  } catch (const ValueError&) {
    raise<ValueError>("[quantize] the weight of {} holds NaN or infinity", w.report.name);
  }
}

/// What a layer made, as rows of its outputs, f64.
Tensor rows_of(const Tensor& y, bool is_convolution) {
  const Tensor wide = y.detach().to(DType::f64);
  return is_convolution ? wide.permute({0, 2, 3, 1}).reshape({-1, y.size(1)})
                        : wide.reshape({-1, y.size(-1)});
}

void see_losses(Watched& w, const Tensor& x, const Tensor& y) {
  if (x.dtype() != DType::f32 || x.numel() == 0) return;
  const bool is_convolution = w.layer.conv != nullptr;
  const Tensor exact = rows_of(y, is_convolution);
  BRIM_CHECK(std::isfinite(sum(exact).item()), ValueError,
             "[quantize] the outputs of {} are not finite in the calibration: its weight or bias "
             "holds NaN or infinity, or they overflow",
             w.report.name);
  const Tensor lost = exact - rows_of(w.int8(x), is_convolution);
  const std::vector<double> sums = sum(lost, {0}).to_vector<double>();
  for (size_t o = 0; o < sums.size(); ++o) w.difference[o] += sums[o];
  w.squares += sum(square(lost)).item();
  w.output_squares += sum(square(exact)).item();
  w.rows += exact.size(0);
}

void correct(Watched& w, bool is_wanted) {
  if (!w.is_open() || w.rows == 0) return;
  std::vector<float> means;
  double of_means = 0;  // what the correction takes off the squares
  for (const double sum : w.difference) {
    means.push_back(static_cast<float>(sum / static_cast<double>(w.rows)));
    of_means += sum * sum / static_cast<double>(w.rows);
  }
  if (is_wanted) {
    const Int8Weight& q = w.report.weight;
    const Tensor correction =
        Tensor::from<float>(means, {static_cast<int64_t>(means.size())}, q.values.device());
    w.report.weight = Int8Weight::of(q.values, q.scales, correction);
    w.squares = std::max(0.0, w.squares - of_means);
  }
  w.report.error = w.output_squares > 0 ? std::sqrt(w.squares / w.output_squares) : 0;
}

enum Form : uint8_t { kF32, kInt8, kSparseInt8, kForms };

/// Of each form in its faster memory format; infinite where there is none. `sparse`: may be empty.
std::array<double, kForms> times_of(const Watched& w, const SparseInt8Weight& sparse,
                                    const Tensor& x) {
  const Tensor nhwc = x.rank() == 4 ? x.to(MemoryFormat::nhwc) : x;
  std::vector<Form> forms = {kF32, kF32, kInt8};
  std::vector<std::function<void()>> calls = {
      [&] { (void)w.dense(x); }, [&] { (void)w.dense(nhwc); }, [&] { (void)w.int8(nhwc); }};
  if (sparse.values.defined()) {
    forms.insert(forms.end(), {kSparseInt8, kSparseInt8});
    calls.emplace_back([&] { (void)w.sparse_int8(x, sparse); });
    calls.emplace_back([&] { (void)w.sparse_int8(nhwc, sparse); });
  }
  const std::vector<double> times = shortest_times(calls, x.device());
  std::array<double, kForms> best{};
  best.fill(std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < forms.size(); ++i) best[forms[i]] = std::min(best[forms[i]], times[i]);
  return best;
}

/// The integers without their columns of zeros; empty where there are none, or none is asked for.
SparseInt8Weight without_zeros(const Watched& w, int64_t vector) {
  if (vector == 0) return {};
  SparseInt8Weight sparse = SparseInt8Weight::encode(w.report.weight, vector);
  return sparse.density() < 1 ? sparse : SparseInt8Weight();
}

/// Its times in each form, and whether it is slower in integers.
void measure(Watched& w, int64_t vector) {
  if (!w.is_open()) return;
  const SparseInt8Weight sparse = without_zeros(w, vector);
  const auto times = times_of(w, sparse, w.first);
  w.report.f32_s = times[kF32];
  w.report.int8_s = times[kInt8];
  if (sparse.values.defined()) w.report.sparse_int8_s = times[kSparseInt8];
  const bool has_samples = w.first.rank() > 1 && w.first.size(0) > 1;
  const auto one = has_samples ? times_of(w, sparse, w.first.slice(0, 0, 1).contiguous()) : times;
  const bool is_sparse = times[kSparseInt8] < times[kInt8] && one[kSparseInt8] < one[kInt8];
  const Form form = is_sparse ? kSparseInt8 : kInt8;
  if (is_sparse) w.report.sparse = sparse;
  if (times[form] < times[kF32] && one[form] < one[kF32]) return;
  const bool all_are_slower = times[form] >= times[kF32];
  const auto& slower = all_are_slower ? times : one;
  w.slower = fmt::format("slower in integers: {:.1f} us, f32 {:.1f} us{}", 1e6 * slower[form],
                         1e6 * slower[kF32], all_are_slower ? "" : " for one sample");
}

/// Layers that are faster one by one may change memory formats between them, which costs more.
void measure_together(nn::Module& network, std::vector<Watched>& layers,
                      const std::function<void()>& run) {
  constexpr double kClearly = 1.1;  // data may take most of the time
  for (Watched& w : layers)
    if (w.is_open() && !w.slower.empty()) w.give_up(w.slower);
  if (std::ranges::none_of(layers, &Watched::is_open)) return;
  const auto shortest = [&] {
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 2; ++round) {
      const double begin = steady_seconds();
      run();
      synchronize(layers[0].layer.weight().device());
      best = std::min(best, steady_seconds() - begin);
    }
    return best;
  };
  const double f32 = shortest();
  (void)in_integers(layers);
  const double int8 = shortest();
  use_dense(network);
  if (int8 < kClearly * f32) return;
  for (Watched& w : layers)
    if (w.is_open())
      w.give_up(
          fmt::format("the network as a whole is slower in integers: {:.1f} ms, f32 {:.1f} ms",
                      1e3 * int8, 1e3 * f32));
}

}  // namespace

void Watched::give_up(std::string why) {
  report.why = std::move(why);
  report.sparse = {};
}
nn::Module& Watched::module() const {
  if (layer.linear) return *layer.linear;
  return *layer.conv;
}
Tensor Watched::computed(const Tensor& x, const Tensor& weight) const {
  return layer.linear ? linear(x, weight, bias_of(layer))
                      : conv2d(x, weight, bias_of(layer), nn::convolution_of(layer.conv->options));
}
Tensor Watched::dense(const Tensor& x) const { return computed(x, layer.weight()); }
Tensor Watched::int8(const Tensor& x) const {
  const Tensor q = brim::quantize(x, report.input);
  return layer.linear ? int8_linear(q, report.input, report.weight, bias_of(layer))
                      : int8_conv2d(q, report.input, report.weight, bias_of(layer),
                                    nn::convolution_of(layer.conv->options));
}
Tensor Watched::sparse_int8(const Tensor& x, const SparseInt8Weight& weight) const {
  const Tensor q = brim::quantize(x, report.input);
  return layer.linear ? sparse_int8_linear(q, report.input, weight, bias_of(layer))
                      : sparse_int8_conv2d(q, report.input, weight, bias_of(layer),
                                           nn::convolution_of(layer.conv->options));
}
Tensor Watched::rounded(const Tensor& x) const {
  return computed(fake_quantize(x, report.input), fake_quantize_weight(layer.weight()));
}

void find_losses(std::vector<Watched>& layers, const std::function<void()>& run,
                 bool correct_bias) {
  for (Watched& w : layers) w.difference.assign(static_cast<size_t>(w.report.shape[0]), 0.0);
  watch(layers, run, see_losses);
  for (Watched& w : layers) correct(w, correct_bias);
}

std::vector<Watched> with_ranges(nn::Module& network, const std::function<void()>& run,
                                 const QuantizeOptions& o) {
  BRIM_CHECK(run, ValueError, "[quantize] there is nothing to run for the calibration");
  BRIM_CHECK(o.percentile > 50 && o.percentile <= 100, ValueError,
             "[quantize] a percentile of {}; it is above 50, and at most 100", o.percentile);
  BRIM_CHECK(o.vector == 0 || SparseWeight::has_vectors_of(o.vector), ValueError,
             "[quantize] vectors of {}: give 4, 8, 16, 32 or 64, or 0", o.vector);
  std::vector<Watched> layers = layers_of(network, o);
  use_dense(network);
  const NoGrad scope;
  const nn::EvalMode mode(network);
  watch(layers, run, see_inputs);
  const auto was_run = [](const Watched& w) { return w.inputs.count() > 0; };
  BRIM_CHECK(
      std::ranges::none_of(layers, &Watched::is_open) || std::ranges::any_of(layers, was_run),
      ValueError,
      "[quantize] the calibration ran none of the layers: its data is empty, or of another "
      "network");
  for (Watched& w : layers) choose_range(w, o);
  return layers;
}

std::vector<Watched> calibrated(nn::Module& network, const std::function<void()>& run,
                                const QuantizeOptions& o) {
  std::vector<Watched> layers = with_ranges(network, run, o);
  std::string reasons;
  for (const Watched& w : layers)
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", w.report.name, w.report.why);
  BRIM_CHECK(std::ranges::any_of(layers, &Watched::is_open), ValueError,
             "[quantize] no layer can compute in integers{}",
             reasons.empty() ? ": the network has no convolutions and linear layers"
                             : " (" + reasons + ")");
  const NoGrad scope;
  const nn::EvalMode mode(network);
  find_losses(layers, run, o.correct_bias);
  double measured = 0;
  for (Watched& w : layers) {
    if (o.only_faster && o.progress) o.progress(measured++ / static_cast<double>(layers.size()));
    if (o.only_faster)
      measure(w, o.vector);
    else if (w.is_open())
      w.report.sparse = without_zeros(w, o.vector);
    w.first = {};
  }
  if (o.only_faster && o.pass_seconds)
    choose_by_passes(network, layers, o.pass_seconds);
  else if (o.only_faster)
    measure_together(network, layers, run);
  return layers;
}

void use_int8(const Prunable& layer, const Int8Layer& form) {
  const auto use = [&](auto& module) {
    if (form.is_sparse())
      module.use_sparse_int8(form.sparse, form.input);
    else
      module.use_int8(form.weight, form.input);
  };
  if (layer.linear)
    use(*layer.linear);
  else
    use(*layer.conv);
}

std::vector<QuantizedLayer> in_integers(std::vector<Watched> layers) {
  std::vector<QuantizedLayer> all;
  for (Watched& w : layers) {
    if (w.is_open()) use_int8(w.layer, w.form());
    all.push_back(std::move(w.report));
  }
  return all;
}

}  // namespace brim::compress
