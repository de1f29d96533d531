// Ops in a row, as networks have them and the passes of compiled steps fuse them.
#include <brim/ops/binary.h>
#include <brim/ops/conv.h>
#include <brim/ops/loss.h>
#include <brim/ops/matmul.h>
#include <brim/ops/norm.h>
#include <brim/ops/pool.h>
#include <brim/ops/unary.h>

#include "op_table/op_table.h"

namespace brim::tests {

OpTable chain_ops() {
  return {
      {"linear_relu", [](const Call& c) { return relu(linear(c[0], c[1], c[2])); }},
      {"linear_gelu_linear",
       [](const Call& c) { return linear(gelu(linear(c[0], c[1], c[2])), c[3], c[4]); }},
      {"linear_cross_entropy",
       [](const Call& c) { return cross_entropy(linear(c[0], c[2], c[3]), c[1]); }},
      {"conv_relu_pool",
       [](const Call& c) {
         const Pair padding = c.pair("padding");
         return max_pool2d(relu(conv2d(c[0], c[1], c[2], {.padding = padding})), 2);
       }},
      {"batch_norm_add_relu",
       [](const Call& c) {
         return relu(batch_norm(c[0], c[2], c[3], {}, {}, {.training = true}) + c[1]);
       }},
      {"conv_batch_norm_relu",
       [](const Call& c) {
         const Tensor y = conv2d(c[0], c[1], {}, {.stride = c.pair("stride"), .padding = 1});
         return relu(batch_norm(y, c[2], c[3], {}, {}, {.training = true}));
       }},
      {"mul_add_tanh", [](const Call& c) { return tanh(c[0] * c[1] + c[2]); }},
  };
}

}  // namespace brim::tests
