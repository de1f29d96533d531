// Embedding: a table of vectors that are trained.
#pragma once

#include <optional>

#include <brim/nn/module.h>

namespace brim::nn {

/// ids (any shape), i64 or i32 -> (..., dim). The weight starts as normal numbers; the row
/// `padding_idx` (may count from the end) as zeros, and it is never trained.
class Embedding : public Module {
 public:
  /// Options of Embedding.
  struct Options {
    int64_t num = 0;                          ///< rows: the ids are 0 .. num - 1
    int64_t dim = 0;                          ///< of each row
    std::optional<int64_t> padding_idx = {};  ///< the row that stays zeros; may count from the end
    DType dtype = DType::f32;                 ///< of the parameters
    Device device = default_device();         ///< of the parameters
  };
  explicit Embedding(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& ids) override;

  const Options options;  ///< as given to the constructor
  Tensor& weight;         ///< (num, dim)

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
