// Which MPI libraries are taken.
#include "dist/mpi_library.h"

#include <gtest/gtest.h>

namespace brim::dist {
namespace {

TEST(MpiLibrary, OthersThanOpenMpi4And5AreRefused) {
  EXPECT_EQ(mpi_version_fault("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), "");
  EXPECT_EQ(mpi_version_fault("Open MPI v5.0.6"), "");
  EXPECT_EQ(mpi_version_fault("Open MPI v3.1.3, package: Open MPI, ident: 3.1.3"),
            "is Open MPI v3.1.3");
  EXPECT_EQ(mpi_version_fault("Open MPI v40.1"), "is Open MPI v40.1");
  EXPECT_EQ(mpi_version_fault("MPICH Version:      4.0.2\nMPICH Release date: ..."),
            "is MPICH Version:      4.0.2");
  EXPECT_EQ(mpi_version_fault(""), "has no version");
}

}  // namespace
}  // namespace brim::dist
