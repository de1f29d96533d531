// softsign on GPUs.
#include "softsign.h"

#include <brim/extend/cuda_formula.h>

namespace {

const bool registered = brim::extend::cuda::register_formula<own::Softsign>();

}  // namespace
