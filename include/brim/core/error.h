// Every exception that brim throws. what() is one line: [op or place] what, where; what to do. Text
// from files in it can do a terminal no harm: control characters, and bytes that are no UTF-8, are
// shown as '?'.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace brim {

/// What brim throws: one line that says what happened, where, and what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what);  ///< characters that a terminal would obey are masked
};

class ShapeError : public Error {
  using Error::Error;
};  ///< sizes do not fit
class DTypeError : public Error {
  using Error::Error;
};  ///< element types do not fit
class DeviceError : public Error {
  using Error::Error;
};  ///< devices differ or are missing
class IndexError : public Error {
  using Error::Error;
};  ///< an axis or index out of range
class ValueError : public Error {
  using Error::Error;
};  ///< an argument, option or recipe value
class FileError : public Error {
  using Error::Error;
};  ///< a file is missing, damaged or unwritable
class AutogradError : public Error {
  using Error::Error;
};  ///< a gradient cannot be computed
class StreamError : public Error {
  using Error::Error;
};  ///< a stream uses what another one still works on
class CompileError : public Error {
  using Error::Error;
};  ///< a step cannot be recorded, or a pass does not exist
class DistError : public Error {
  using Error::Error;
};  ///< ranks are missing, have ended, or do not do the same
class NotImplemented : public Error {
  using Error::Error;
};  ///< no kernel for this backend and dtype

/// A device (or the limit set on it) has no room for an allocation.
class OutOfMemory : public Error {
 public:
  /// Of `requested` bytes, where `free` were free and `cached` could have been.
  OutOfMemory(const std::string& what, int64_t requested, int64_t free, int64_t cached)
      : Error(what), requested(requested), free(free), cached(cached) {}
  int64_t requested, free, cached;  ///< bytes
};

}  // namespace brim
