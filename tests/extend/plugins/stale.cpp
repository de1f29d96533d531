// A plugin as another brim's headers made it. It leaves a sign if any of it runs.
#include <stdlib.h>  // setenv is POSIX

extern "C" {
extern const char brim_interface_0_0_9_00000000deadbeef;
extern const void* const brim_plugin[];
const void* const brim_plugin[] = {"stale", &brim_interface_0_0_9_00000000deadbeef};
}

namespace {

const int ran = setenv("BRIM_TEST_STALE_PLUGIN_RAN", "1", 1);

}  // namespace
