// Image folders: what a command that writes asks about them.
#pragma once

#include <string>

namespace brim::data {

/// Throws FileError if the folder `out` would lie in the image folder `where`, all of whose folders
/// are read: it would be one that holds no pictures, or a class. Any other data may hold it.
void check_outside(const std::string& where, const std::string& out);

}  // namespace brim::data
