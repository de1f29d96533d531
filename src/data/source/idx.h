// The IDX files of MNIST: what Source::open asks about them.
#pragma once

#include <string>

namespace brim::data {

/// True if the folder, or raw/ in it (where torchvision puts them), holds an IDX file of MNIST.
bool is_idx_folder(const std::string& path);

/// True for the names of such files: a user who passes one meant the folder.
bool is_idx_file(const std::string& path);

}  // namespace brim::data
