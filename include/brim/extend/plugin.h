// Plugins: shared libraries that register kernels when they are opened. One file of a plugin says
// BRIM_PLUGIN("its name"); CMake's brim_add_plugin() writes it.
#pragma once

#include <string>

#include <brim/interface.h>
#include <brim/version.h>

namespace brim {

/// Opens the plugin at `path` for as long as the process lives, and returns its name; again does
/// nothing. Throws FileError where there is no such file or it does not open, and Error where it
/// is no plugin, was built with the headers of another brim (none of it has run then), or one of
/// its kernels cannot be registered.
std::string load_plugin(const std::string& path);

/// What a plugin says of itself.
struct PluginInfo {
  const char* name;       ///< as BRIM_PLUGIN has it
  const char* interface;  ///< a symbol that only the libbrim of the same headers has
};

}  // namespace brim

extern "C" const char BRIM_INTERFACE;

#define BRIM_PLUGIN(plugin_name)                                            \
  extern "C" {                                                              \
  [[gnu::visibility("default")]] extern const brim::PluginInfo brim_plugin; \
  const brim::PluginInfo brim_plugin{plugin_name, &BRIM_INTERFACE};         \
  }                                                                         \
  static_assert(true)
