// Fuzz target: any bytes as what comes over a socket while ranks meet. Byte 0: to whom they come. A
// listener gets a sound hello with these bits flipped, and takes none but those of a rank that it
// waits for; a rank that joins gets them as answers and as a row of the table, and accepts, goes on
// to another port, or throws DistError.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <brim/core/error.h>

#include "core/clock.h"
#include "core/printable.h"
#include "dist/hello.h"

namespace {

using namespace brim::dist;

constexpr const char* kToken = "secret";

bool is_printable(const std::string& text) { return brim::printable(text) == text; }

void listen_to(const uint8_t* data, size_t size) {
  const Expected expected{
      .rank = 0, .size = 3, .first = 1, .mesh = 7, .meshes = 2, .token = kToken};
  const Hello sound = make_hello(1, 3, 80, 7, kToken);
  Hello hello = sound;
  auto* const bytes = reinterpret_cast<unsigned char*>(&hello);
  for (size_t i = 0; i < std::min(size, sizeof(hello)); ++i) bytes[i] ^= data[i];
  const Fault fault = fault_of(hello, expected);
  if (!is_printable(fault.text)) __builtin_trap();
  if (!fault.text.empty()) return;
  const bool is_of_the_run = std::memcmp(hello.magic, sound.magic, sizeof(hello.magic)) == 0 &&
                             std::memcmp(hello.build, sound.build, sizeof(hello.build)) == 0 &&
                             std::memcmp(hello.token, sound.token, sizeof(hello.token)) == 0 &&
                             hello.byte_order == sound.byte_order;
  const bool is_awaited = hello.size == 3 && (hello.rank == 1 || hello.rank == 2) &&
                          (hello.mesh == 7 || hello.mesh == 8) && hello.port <= 65535;
  if (!is_of_the_run || !is_awaited) __builtin_trap();
}

void join_with(const uint8_t* data, size_t size) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return;
  const Socket own(ends[0]);
  Socket other(ends[1]);
  std::string why;
  (void)send_all(other, data, std::min<size_t>(size, 4096), brim::steady_seconds() + 1, why);
  other.shut_down();
  try {
    (void)handshake(own, make_hello(1, 3, 80, 7, kToken), brim::steady_seconds() + 1, why);
  } catch (const brim::DistError& e) {
    why = e.what();
  }
  if (!is_printable(why)) __builtin_trap();
  EndpointRow row;
  std::memcpy(&row, data, std::min(size, sizeof(row)));
  if (!is_printable(row.endpoint().host)) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 0)
    listen_to(data + 1, size - 1);
  else
    join_with(data + 1, size - 1);
  return 0;
}
