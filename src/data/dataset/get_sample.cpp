#include "data/dataset/get_sample.h"

#include <new>
#include <string>

#include "core/check.h"
#include "data/dataset/sample_access.h"

namespace brim::data {
namespace {

/// As a rule files are named already.
std::string named(const Dataset& data, int64_t i, const std::string& what) {
  const std::string name = data.describe(i);
  return what.find(name) == std::string::npos ? name + ": " + what : what;
}

}  // namespace

void get_sample(const Dataset& data, int64_t i, Sample& out) {
  SampleAccess::is_from(out, data, i);
  try {
    data.get(i, out);
    SampleAccess::check_row(out);
  } catch (const FileError& e) {
    throw FileError(named(data, i, e.what()));
  } catch (const ShapeError& e) {
    throw ShapeError(named(data, i, e.what()));
  } catch (const ValueError& e) {
    throw ValueError(named(data, i, e.what()));
  } catch (const DTypeError& e) {
    throw DTypeError(named(data, i, e.what()));
  } catch (const IndexError& e) {
    throw IndexError(named(data, i, e.what()));
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw FileError(named(data, i, e.what()));
  } catch (...) {
    throw FileError(named(data, i, "something was thrown that is no std::exception"));
  }
}

}  // namespace brim::data
