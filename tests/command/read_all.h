// What a socket gives until the other side hangs up.
#pragma once

#include <unistd.h>

#include <string>

namespace brim::tests {

inline std::string read_all(int socket) {
  std::string text;
  char piece[4096];
  for (ssize_t n = 0; (n = read(socket, piece, sizeof(piece))) > 0;)
    text.append(piece, static_cast<size_t>(n));
  return text;
}

}  // namespace brim::tests
