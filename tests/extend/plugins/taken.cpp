// A plugin with a kernel whose name is taken.
#include <brim/extend.h>

namespace {

using namespace brim;

void not_relu(const Context&, const Tensor&, Tensor&, const extend::Params&) {}

const bool registered = extend::register_kernel("relu", DeviceKind::cpu, f32, &not_relu);

}  // namespace
