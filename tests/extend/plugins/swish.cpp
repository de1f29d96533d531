// A plugin with a formula that the program has, too.
#include "extend/formula_ops.h"

namespace {

const brim::extend::FormulaKernel& kernel = brim::extend::formula_kernel<brim::tests::Swish>();

}  // namespace
