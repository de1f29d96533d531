// TensorBoard's event files: records of TFRecord's framing (tensorflow.org, "TFRecord and
// tf.train.Example"), each an Event message (tensorflow/core/util/event.proto).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/open_to_write.h"
#include "io/protobuf.h"

namespace brim::io {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
uint32_t crc32c(std::string_view bytes);

/// Whether a file has a whole GraphDef. What follows damage is not looked at, as TensorBoard does
/// not read it either; a file that cannot be read has none.
bool has_graph(const std::string& path);

/// A new file, FOLDER/events.out.tfevents.SECONDS.HOST.PID.N, that only grows: what was written
/// before a process dies is read. One thread at a time.
class EventFile {
 public:
  /// Makes the folder where there is none. Throws FileError.
  explicit EventFile(const std::string& folder);

  /// A Summary message, as of now. Throws FileError.
  void add_summary(int64_t step, const ProtobufWriter& summary);
  /// A GraphDef message, as of now. Throws FileError.
  void add_graph(const ProtobufWriter& graph);
  /// From here on the run goes on from `step`: what other files of the folder say of this step and
  /// later ones holds no more. Throws FileError.
  void add_restart(int64_t step);
  /// Hands what is buffered to the system. Throws FileError.
  void flush();
  const std::string& path() const { return path_; }

 private:
  void add(const ProtobufWriter& event);
  [[noreturn]] void fail(const char* what, int error) const;

  std::string path_;
  OwnedStream out_{nullptr, nullptr};
  double flushed_ = 0;  // when, of steady_seconds()
};

}  // namespace brim::io
