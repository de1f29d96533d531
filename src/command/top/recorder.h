// A file to which moments are added, one JSON document a line.
#pragma once

#include <string>

#include "command/top/moment.h"
#include "core/open_to_write.h"

namespace brim::top {

class Recorder {
 public:
  /// Adds to what the file holds; a last line that was cut short is ended. Throws FileError.
  explicit Recorder(const std::string& path);
  /// Throws FileError, as for a full disk.
  void add(const Moment& moment);

 private:
  void write(std::string_view text);

  std::string path_;
  OwnedStream out_;
};

}  // namespace brim::top
