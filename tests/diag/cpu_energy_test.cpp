// RAPL's counters, out of a folder that is made like the kernel's.
#include "diag/cpu_energy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.h"

namespace brim::diag {
namespace {

class CpuEnergyTest : public ::testing::Test {
 protected:
  void write(const std::string& zone, const char* file, const std::string& text) const {
    std::filesystem::create_directories(folder / zone);
    std::ofstream(folder / (zone + "/" + file)) << text << '\n';
  }
  void make_zone(const std::string& zone, const std::string& name,
                 const std::string& energy) const {
    write(zone, "name", name);
    write(zone, "max_energy_range_uj", "1000000000");
    write(zone, "energy_uj", energy);
  }
  std::string root() const { return folder / "."; }
  tests::TemporaryFolder folder;
};

TEST_F(CpuEnergyTest, AddsPackagesAndNotTheirParts) {
  make_zone("intel-rapl:0", "package-0", "5000000");
  make_zone("intel-rapl:1", "package-1", "7000000");
  make_zone("intel-rapl:0:0", "core", "1");
  make_zone("intel-rapl:2", "psys", "1");
  CpuEnergy energy(root());
  EXPECT_EQ(energy.read(), 0);
  write("intel-rapl:0", "energy_uj", "6000000");
  write("intel-rapl:1", "energy_uj", "9500000");
  write("intel-rapl:2", "energy_uj", "99000000");
  EXPECT_DOUBLE_EQ(*energy.read(), 3.5);
}

TEST_F(CpuEnergyTest, GoesOnWhereACounterBeginsAnew) {
  make_zone("intel-rapl:0", "package-0", "999000000");
  CpuEnergy energy(root());
  write("intel-rapl:0", "energy_uj", "1000000");
  EXPECT_DOUBLE_EQ(*energy.read(), 2);
}

TEST_F(CpuEnergyTest, IsEmptyWhereNothingCanBeRead) {
  EXPECT_FALSE(CpuEnergy(folder / "none").read().has_value());
  make_zone("intel-rapl:0", "package-0", "nonsense");
  EXPECT_FALSE(CpuEnergy(root()).read().has_value());
  make_zone("intel-rapl:0", "package-0", "5");
  CpuEnergy energy(root());
  std::filesystem::remove(folder / "intel-rapl:0/energy_uj");
  EXPECT_FALSE(energy.read().has_value());
}

}  // namespace
}  // namespace brim::diag
