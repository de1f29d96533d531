// Multi-head attention.
#pragma once

#include <brim/nn/linear.h>

namespace brim::nn {

/// Which keys queries see, as in scaled_dot_product_attention. PyTorch's modules take the opposite
/// of these masks: theirs are true where a key is hidden.
struct AttentionMask {
  Tensor mask = {};  ///< broadcast to (N, heads, L, S): bool, true: may be seen; or added to scores
  Tensor keys = {};  ///< (N, S) or (S), bool: false for keys that nobody sees, as padding
  bool causal = false;  ///< query i sees keys 0 .. i
};

/// Attention of several heads, each with dim / heads features of projections of queries, keys and
/// values, whose results go through one more projection (Vaswani et al. 2017). Batches come first.
/// Names of the state as in PyTorch: in_proj_weight (3 dim, dim), or q_proj_weight, k_proj_weight
/// and v_proj_weight where keys or values have other sizes, in_proj_bias (3 dim), out_proj.weight,
/// out_proj.bias. Projections in begin as xavier_uniform_, biases with 0.
class MultiheadAttention : public Module {
 public:
  /// Options of MultiheadAttention.
  struct Options {
    int64_t dim = 0;                   ///< features of queries and results; a multiple of heads
    int64_t heads = 0;                 ///< how many there are
    double dropout = 0;                ///< of the weights, in training
    bool bias = true;                  ///< false: nothing is added
    int64_t key_dim = 0;               ///< features of keys; 0: dim
    int64_t value_dim = 0;             ///< features of values; 0: dim
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit MultiheadAttention(Options options);  ///< throws ValueError for options out of range
  /// Of a sequence to itself. x: (N, L, dim) or (L, dim).
  Tensor forward(const Tensor& x) override { return forward(x, x, x); }
  /// Of a sequence to itself, where `mask` lets it.
  Tensor forward(const Tensor& x, const AttentionMask& mask) { return forward(x, x, x, mask); }
  /// query: (N, L, dim), key: (N, S, key_dim), value: (N, S, value_dim) -> (N, L, dim); or all
  /// without N. Throws ShapeError.
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMask& mask = {});
  ///@{
  /// Calls forward().
  Tensor operator()(const Tensor& x, const AttentionMask& mask = {}) { return forward(x, mask); }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMask& mask = {}) {
    return forward(query, key, value, mask);
  }
  ///@}

  const Options options;                                  ///< as given to the constructor
  Tensor& in_proj_weight;                                 ///< undefined where there are three
  Tensor &q_proj_weight, &k_proj_weight, &v_proj_weight;  ///< undefined where there is one
  Tensor& in_proj_bias;                                   ///< undefined without bias
  Linear& out_proj;                                       ///< the projection of all heads' results

 protected:
  std::string options_str() const override;

 private:
  std::vector<Tensor> project(const Tensor& query, const Tensor& key, const Tensor& value) const;
};

}  // namespace brim::nn
