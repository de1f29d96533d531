// Writing safetensors into a file that the caller commits, for sets of files.
#pragma once

#include <brim/io/safetensors.h>

#include "io/atomic_file.h"

namespace brim::io {

/// As save_safetensors, without the commit. Throws FileError, ValueError.
void write_safetensors(AtomicFile& file, const TensorMap& tensors, const Metadata& metadata = {});

}  // namespace brim::io
