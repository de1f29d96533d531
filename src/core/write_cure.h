// What users can do about a folder that cannot be written.
#pragma once

#include <string>

namespace brim {

/// What helps against an errno of making, writing or renaming a file: "mount it for writing (..),
/// or write elsewhere". `otherwise`: what helps whatever the cause is.
std::string write_cure(int error, const std::string& otherwise = "write elsewhere");

/// The end of a message: "Read-only file system; mount it for writing (..), or write elsewhere".
std::string write_failure(int error, const std::string& otherwise = "write elsewhere");

/// Throws FileError where `folder` and those above it that are missing cannot be made, or what is
/// made cannot be written to. `place` and `otherwise` are of the message.
void make_folders(const std::string& place, const std::string& folder,
                  const std::string& otherwise = "write elsewhere");

}  // namespace brim
