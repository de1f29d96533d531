// Files that come with brim beside its libraries: scripts, sources of the runtime.
#pragma once

#include <filesystem>
#include <optional>

namespace brim::command {

/// `installed` below a folder above this command, where `cmake --install` put it, or else `own`,
/// where the source tree has it that this command was built in. Nothing where neither is there.
std::optional<std::filesystem::path> shared_path(const std::filesystem::path& installed,
                                                 const std::filesystem::path& own);

}  // namespace brim::command
