// Names of kernels for people.
#pragma once

#include <string>
#include <string_view>

namespace brim::cuda {

/// "void brim::cuda::(anonymous namespace)::unary_kernel<float, brim::formula::Relu>(float*)" is
/// "unary_kernel<float, Relu>": no namespaces, no result, no parameters, at most 96 characters.
std::string short_kernel_name(std::string_view demangled);

}  // namespace brim::cuda
