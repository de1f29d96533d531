// Opens users' plugins. One belongs to this libbrim if it needs the symbol BRIM_INTERFACE, whose
// name holds brim's version and a hash of the public headers. The file is asked, before it is
// opened: by then code of it has run, perhaps with another libbrim that it brought.
#include <brim/extend/plugin.h>

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "backend/elf_symbols.h"
#include "core/check.h"
#include "core/registration_faults.h"

extern "C" const char BRIM_INTERFACE = 0;

#define BRIM_TEXT_OF(symbol) #symbol
#define BRIM_NAME_OF(symbol) BRIM_TEXT_OF(symbol)

namespace brim {
namespace {

constexpr std::string_view kSymbol = BRIM_NAME_OF(BRIM_INTERFACE);
constexpr std::string_view kSymbolPrefix = "brim_interface_";
constexpr const char* kInfo = "brim_plugin";

/// "brim 0.1.0 (interface 1234abcd)", of a name that a file may have made up.
std::string described(std::string_view symbol) {
  symbol.remove_prefix(kSymbolPrefix.size());
  const size_t at = std::min(symbol.rfind('_'), symbol.size());
  std::string version(symbol.substr(0, at));
  std::replace(version.begin(), version.end(), '_', '.');
  return fmt::format("brim {} (interface {})", version,
                     symbol.substr(std::min(at + 1, symbol.size())));
}

[[noreturn]] void no_plugin(const std::string& path) {
  raise<Error>(
      "[plugin] {} is no plugin of brim; build it with brim_add_plugin(), or write "
      "BRIM_PLUGIN(\"name\") in one of its files",
      path);
}

/// Throws where the file is no plugin of this brim. Nothing of it runs.
void check_file(const std::string& path, const std::string& file) {
  const auto symbols = backend::elf_symbols(file, "brim_");
  BRIM_CHECK(symbols, FileError, "[plugin] {} does not open: it is no shared library for this CPU",
             path);
  bool info = false, interface = false;
  for (const backend::ElfSymbol& symbol : *symbols) {
    info |= symbol.defined && symbol.name == kInfo;
    if (!symbol.name.starts_with(kSymbolPrefix)) continue;
    BRIM_CHECK(symbol.name == kSymbol, Error,
               "[plugin] {} was built for {}, but this is {}; build it again with the headers of "
               "this one",
               path, described(symbol.name), described(kSymbol));
    interface = true;
  }
  if (!info || !interface) no_plugin(path);
}

}  // namespace

std::string load_plugin(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(path, error);
  BRIM_CHECK(std::filesystem::is_regular_file(file, error), FileError,
             "[plugin] {} is not there; name the library that brim_add_plugin() builds", path);
  check_file(path, file.string());
  // One at a time, so that another thread's call finds the faults of this one's; a plugin may open
  // others.
  static std::recursive_mutex mutex;
  static auto* const faults_of = new std::map<void*, std::string>;
  const std::lock_guard lock(mutex);
  const RegistrationFaults faults;
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const why = dlerror();
    raise<FileError>(
        "[plugin] {} does not open: {}; where a symbol is missing, link the library "
        "that has it",
        path, why ? why : "unknown error");
  }
  // From here on it stays open, whatever is wrong: what it has registered may be in use. Only the
  // first time does it register, so what was wrong then is so for good.
  const std::string& fault = faults_of->try_emplace(library, faults.first()).first->second;
  const auto* const info = static_cast<const PluginInfo*>(dlsym(library, kInfo));
  if (!info || info->interface != &BRIM_INTERFACE) no_plugin(path);
  if (!fault.empty()) raise<Error>("[plugin] {}: {}", path, fault);
  return info->name;
}

}  // namespace brim
