// What readers of files say of bytes that they were given as "some.file".
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "message_of.h"

namespace brim::tests {

/// What `read` throws as a FileError, which must be one line and name some.file; "no error" where
/// it throws nothing.
template <class F>
std::string file_error(const F& read) {
  const std::string error = message_of<FileError>(read);
  if (error == "no error") return error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  EXPECT_NE(error.find("some.file"), std::string::npos) << error;
  return error;
}

}  // namespace brim::tests
