// Where a running training can be asked how it is: a socket in the user's runtime folder.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace brim::command {

/// Listens on RUNTIME_FOLDER/PID-N.sock, which only its user can reach, and answers who connects
/// with one line, then hangs up. One that does not read is hung up on: neither it nor anybody else
/// makes the training wait.
class StatusServer {
 public:
  /// `document` is called by a thread of its own, until the end. Throws FileError, Error.
  explicit StatusServer(std::function<std::string()> document);
  /// Removes the socket.
  ~StatusServer();
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  const std::string& path() const { return path_; }

 private:
  void serve() const;

  std::function<std::string()> document_;
  std::string path_;
  int listening_ = -1;
  int wake_[2] = {-1, -1};  // a pipe, closed at the end
  std::thread thread_;
};

}  // namespace brim::command
