// Dataset::get, checked, with errors that name the sample.
#pragma once

#include <brim/data/dataset.h>

namespace brim::data {

/// Throws what get() throws, with describe(i) in front; what is no Error of brim becomes a
/// FileError. ShapeError where a row of a batch was not filled.
void get_sample(const Dataset& data, int64_t i, Sample& out);

}  // namespace brim::data
