// Where paths lead.
#pragma once

#include <filesystem>
#include <string>

namespace brim::io {

/// `path` absolute, without links, "." and "..", whether it is there yet or not. Two paths lead to
/// one place if these are equal.
std::filesystem::path real_path(const std::string& path);

/// Whether `path` is `folder` or lies below it; both are real paths.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace brim::io
