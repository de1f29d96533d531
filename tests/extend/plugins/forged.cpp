// A plugin that needs this brim, and says that it belongs to another.
#include <brim/extend/plugin.h>

extern "C" {
extern const char* const brim_test_needs_brim;
const char* const brim_test_needs_brim = &BRIM_INTERFACE;
extern const brim::PluginInfo brim_plugin;
const brim::PluginInfo brim_plugin{"forged", nullptr};
}
