// A plugin with a kernel whose traits do not fit, which its static object finds out.
#include <brim/extend.h>

namespace {

using namespace brim;

const extend::Kernel<void(const Context&, const Tensor& x, Tensor& y)> kernel("test_bad_kernel",
                                                                              {.operands = "x"});

}  // namespace
