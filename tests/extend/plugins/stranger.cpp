// A library that is no plugin, though it registers a kernel.
#include <brim/extend.h>

namespace {

using namespace brim;

void nothing(const Context&, Tensor&) {}

const bool registered = extend::register_kernel("test_stranger", DeviceKind::cpu, f32, &nothing);

}  // namespace
