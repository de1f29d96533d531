#include "plan/fit_program.h"
#include "plan/pass.h"

namespace brim::plan {

std::string offload(Program& program) { return fit(program); }

}  // namespace brim::plan
