// The families of ops, together.
#include "op_table/op_table.h"

namespace brim::tests {

const OpTable& op_table() {
  static const OpTable all = [] {
    OpTable table;
    for (OpTable family : {elementwise_ops(), reduction_ops(), movement_ops(), index_ops(),
                           layer_ops(), chain_ops()})
      table.merge(family);
    return table;
  }();
  return all;
}

}  // namespace brim::tests
