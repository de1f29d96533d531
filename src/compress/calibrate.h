// What goes into layers, and what they would lose in integers.
#pragma once

#include <brim/compress/quantize.h>

#include <functional>
#include <string>
#include <vector>

#include "compress/prunable.h"
#include "nn/eval_mode.h"

namespace brim::compress {

/// A layer that is looked at.
struct Watched {
  Prunable layer;
  QuantizedLayer report;
  ValueHistogram inputs = {};
  Tensor first = {};  // inputs
  // Of what the outputs lose: sums over samples and pixels for each output, and of all squares.
  std::vector<double> difference = {};
  double squares = 0, output_squares = 0;
  int64_t rows = 0;
  std::string slower = {};  // in integers, alone: how much

  /// Whether it can be quantised, for all that is known.
  bool is_open() const { return report.why.empty(); }
  /// The layer stays f32, for this reason.
  void give_up(std::string why);
  /// In integers.
  Int8Layer form() const {
    return {.weight = report.weight, .input = report.input, .sparse = report.sparse};
  }
  nn::Module& module() const;
  /// With another weight of its shape.
  Tensor computed(const Tensor& x, const Tensor& weight) const;
  Tensor dense(const Tensor& x) const;
  Tensor int8(const Tensor& x) const;
  Tensor sparse_int8(const Tensor& x, const SparseInt8Weight& weight) const;
  /// As both are in training: what it computes with rounded inputs and weights.
  Tensor rounded(const Tensor& x) const;
};

/// Layers with ranges of their inputs, of `run`, and reasons of those that stay f32. All are dense.
/// Throws ValueError where nothing was run, or what was is not finite.
std::vector<Watched> with_ranges(nn::Module& network, const std::function<void()>& run,
                                 const QuantizeOptions& options);

/// quantize() but for its last step: layers with ranges, and reasons of those that stay f32. All
/// are dense. Throws as quantize() does.
std::vector<Watched> calibrated(nn::Module& network, const std::function<void()>& run,
                                const QuantizeOptions& options);

/// What outputs lose in integers, and what is added to them for it. Of a network in eval mode, in a
/// NoGrad scope.
void find_losses(std::vector<Watched>& layers, const std::function<void()>& run, bool correct_bias);

/// The layer computes with this from now on.
void use_int8(const Prunable& layer, const Int8Layer& form);

/// The open ones compute in integers.
std::vector<QuantizedLayer> in_integers(std::vector<Watched> layers);

}  // namespace brim::compress
