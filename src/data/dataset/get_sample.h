// Dataset::get, checked, with errors that name the sample.
#pragma once

#include <new>
#include <string>

#include <brim/core/error.h>
#include <brim/data/dataset.h>

namespace brim::data {

/// "NAME: what", but as a rule files are named already.
inline std::string named(const std::string& name, const std::string& what) {
  return what.find(name) == std::string::npos ? name + ": " + what : what;
}

/// Calls read(), and throws what it throws with name() in front; what is no Error of brim becomes a
/// FileError.
template <class Name, class Read>
void read_named(const Name& name, const Read& read) {
  try {
    read();
  } catch (const FileError& e) {
    throw FileError(named(name(), e.what()));
  } catch (const ShapeError& e) {
    throw ShapeError(named(name(), e.what()));
  } catch (const ValueError& e) {
    throw ValueError(named(name(), e.what()));
  } catch (const DTypeError& e) {
    throw DTypeError(named(name(), e.what()));
  } catch (const IndexError& e) {
    throw IndexError(named(name(), e.what()));
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw FileError(named(name(), e.what()));
  } catch (...) {
    throw FileError(named(name(), "something was thrown that is no std::exception"));
  }
}

/// Throws what get() throws, with describe(i) in front, as read_named() does. ShapeError where a
/// row of a batch was not filled.
void get_sample(const Dataset& data, int64_t i, Sample& out);

}  // namespace brim::data
