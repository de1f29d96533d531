// Image folders: their files, and what a command that writes asks about them.
#pragma once

#include <string>
#include <vector>

#include "data/source/listing.h"

namespace brim::data {

/// Every picture file below a folder, by its extension, without hidden ones. Throws FileError.
std::vector<Entry> list_pictures(const std::string& root);

/// Throws FileError if the folder `out` would lie in the image folder `where`, all of whose folders
/// are read: it would be one that holds no pictures, or a class. Any other data may hold it.
void check_outside(const std::string& where, const std::string& out);

}  // namespace brim::data
