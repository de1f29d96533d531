// Plugins: what opens, and what is refused.
#include <gtest/gtest.h>

#include <cstdlib>

#include <brim/brim.h>
#include <brim/extend.h>

#include "message_of.h"

namespace brim::tests {
namespace {

std::string plugin_path(const std::string& name) {
  const char* const build = std::getenv("BRIM_BUILD_DIR");
  return std::string(build ? build : "build") + "/plugins/lib" + name + ".so";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(LoadPlugin, RegistersItsKernels) {
  const extend::Kernel<void(const Context&, Tensor& y)> kernel("test_plugin_seven");
  Tensor y = zeros({3});
  EXPECT_THROW(kernel(Device::cpu(), f32, y), NotImplemented);
  EXPECT_EQ(load_plugin(plugin_path("plugin_seven")), "plugin_seven");
  EXPECT_EQ(load_plugin(plugin_path("plugin_seven")), "plugin_seven");
  kernel(Device::cpu(), f32, y);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(3, 7));
}

TEST(LoadPlugin, IsNotThere) {
  EXPECT_TRUE(contains(message_of<FileError>([] { load_plugin("/nowhere/lib.so"); }),
                       "[plugin] /nowhere/lib.so is not there"));
}

TEST(LoadPlugin, OfAnotherInterfaceIsRefusedBeforeItRuns) {
  const std::string message = message_of([] { load_plugin(plugin_path("plugin_stale")); });
  EXPECT_TRUE(contains(message, "was built for brim 0.0.9 (interface 00000000deadbeef)"))
      << message;
  EXPECT_TRUE(contains(message, std::string("but this is brim ") + BRIM_VERSION)) << message;
  EXPECT_EQ(std::getenv("BRIM_TEST_STALE_PLUGIN_RAN"), nullptr);
}

TEST(LoadPlugin, OtherLibrariesAreNone) {
  EXPECT_TRUE(contains(message_of([] { load_plugin(plugin_path("plugin_stranger")); }),
                       "is no plugin of brim"));
}

TEST(LoadPlugin, SymbolsThatAreMissingAreNamed) {
  EXPECT_TRUE(contains(message_of<FileError>([] { load_plugin(plugin_path("plugin_unlinked")); }),
                       "brim_test_nobody_has_this"));
}

TEST(LoadPlugin, AKernelThatIsTakenIsRefused) {
  const std::string message = message_of([] { load_plugin(plugin_path("plugin_taken")); });
  EXPECT_TRUE(contains(message, "'relu' has a kernel for cpu and f32 already")) << message;
  EXPECT_EQ(relu(full({1}, -1)).item(), 0);
}

}  // namespace
}  // namespace brim::tests
