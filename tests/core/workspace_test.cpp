// Scratch memory of kernels.
#include <gtest/gtest.h>

#include <brim/core/allocator.h>
#include <brim/core/error.h>

#include "core/context.h"

namespace brim {
namespace {

TEST(Workspace, GivesBackWhatItFindsNoRoomFor) {
  alignas(256) char block[512];
  ScratchStack scratch;
  scratch.rebind(block, sizeof block);
  const Context context{Stream::current(Device::cpu()), &scratch};
  EXPECT_THROW(context.workspace(size_t{1} << 60), Error);
  EXPECT_EQ(context.workspace(512).as<char>(), block);
}

TEST(Workspace, ComesFromTheAllocatorWhereTheStackIsTooSmall) {
  alignas(256) char block[512];
  ScratchStack scratch;
  scratch.rebind(block, sizeof block);
  const Context context{Stream::current(Device::cpu()), &scratch};
  const Workspace first = context.workspace(300), second = context.workspace(300);
  EXPECT_EQ(first.as<char>(), block);
  EXPECT_NE(second.as<char>(), nullptr);
  EXPECT_EQ(scratch.max_bytes(), 1024U);
}

}  // namespace
}  // namespace brim
