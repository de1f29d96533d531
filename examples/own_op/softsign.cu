// softsign on GPUs, compiled ahead: with it, no NVRTC is needed at run time.
#include "softsign.h"

#include <brim/extend/cuda_formula.h>

namespace {

const bool registered = brim::extend::cuda::register_formula<own::Softsign>();

}  // namespace
