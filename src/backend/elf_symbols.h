// Names in a shared library that has not been opened: opening one runs code of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace brim::backend {

struct ElfSymbol {
  std::string name;
  bool defined;  ///< in the library; else the library needs it from another one
};

/// The dynamic symbols of the shared library at `path` whose names begin with `prefix`, but for
/// those of 256 characters or more; nothing where the file is no library for this kind of machine.
/// No file is too broken for it.
std::optional<std::vector<ElfSymbol>> elf_symbols(const std::string& path,
                                                  const std::string& prefix);

}  // namespace brim::backend
