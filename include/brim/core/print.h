// Printing to streams; apart from the types, so that they do not drag <ostream> along.
#pragma once

#include <ostream>

#include <brim/core/tensor.h>

namespace brim {

///@{
/// Writes str() or name().
inline std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << s.str(); }
inline std::ostream& operator<<(std::ostream& out, DType t) { return out << name(t); }
inline std::ostream& operator<<(std::ostream& out, const Device& d) { return out << d.str(); }
///@}
/// Shape, dtype, device and, of at most 64 elements, the values: on one line.
inline std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << t.str(); }

}  // namespace brim
