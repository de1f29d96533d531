// Opens users' plugins. Whether one belongs to this libbrim is not asked: it needs the symbol
// BRIM_INTERFACE, whose name holds brim's version and a hash of the public headers, so the dynamic
// linker refuses a plugin of other headers before any of it runs.
#include <brim/extend/plugin.h>

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/check.h"
#include "core/registration_faults.h"

extern "C" const char BRIM_INTERFACE = 0;

#define BRIM_TEXT_OF(symbol) #symbol
#define BRIM_NAME_OF(symbol) BRIM_TEXT_OF(symbol)

namespace brim {
namespace {

constexpr std::string_view kSymbol = BRIM_NAME_OF(BRIM_INTERFACE);
constexpr std::string_view kSymbolPrefix = "brim_interface_";

/// The interface's symbol that the dynamic linker misses, or empty.
std::string_view missing_interface(std::string_view error) {
  const size_t at = error.find(kSymbolPrefix);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = error.substr(at);
  return rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"));
}

/// "brim 0.1.0 (interface 1234abcd)"
std::string described(std::string_view symbol) {
  symbol.remove_prefix(kSymbolPrefix.size());
  const size_t at = symbol.rfind('_');
  std::string version(symbol.substr(0, at));
  std::replace(version.begin(), version.end(), '_', '.');
  return fmt::format("brim {} (interface {})", version, symbol.substr(at + 1));
}

}  // namespace

std::string load_plugin(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  BRIM_CHECK(std::filesystem::is_regular_file(file, error), FileError,
             "[plugin] {} is not there; name the library that brim_add_plugin() builds", path);
  const RegistrationFaults faults;
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const said = dlerror();
    const std::string why = said ? said : "unknown error";
    if (const std::string_view theirs = missing_interface(why); !theirs.empty())
      raise<Error>(
          "[plugin] {} was built for {}, but this is {}; build it again with the headers of this "
          "one",
          path, described(theirs), described(kSymbol));
    raise<FileError>(
        "[plugin] {} does not open: {}; where a symbol is missing, link the library "
        "that has it",
        path, why);
  }
  const auto* const info = static_cast<const PluginInfo*>(dlsym(library, "brim_plugin"));
  if (!info) {
    dlclose(library);
    raise<Error>(
        "[plugin] {} is no plugin of brim; build it with brim_add_plugin(), or write "
        "BRIM_PLUGIN(\"name\") in one of its files",
        path);
  }
  // It stays open all the same: what it has registered may be in use.
  if (!faults.first().empty()) raise<Error>("[plugin] {}: {}", path, faults.first());
  return info->name;
}

}  // namespace brim
