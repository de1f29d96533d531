#include "dist/hello.h"

#include <brim/interface.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "dist/text_field.h"

namespace brim::dist {
namespace {

#define BRIM_TEXT_OF(symbol) #symbol
#define BRIM_TEXT(symbol) BRIM_TEXT_OF(symbol)
/// The version with a hash of the headers.
std::string build() { return BRIM_TEXT(BRIM_INTERFACE); }

}  // namespace

EndpointRow EndpointRow::of(const Endpoint& endpoint) {
  EndpointRow row;
  put_text(row.host, endpoint.host);
  row.port = endpoint.port;
  return row;
}
Endpoint EndpointRow::endpoint() const { return {take_text(host), static_cast<uint16_t>(port)}; }

bool send_answer(Socket& socket, Answer::Verdict verdict, const std::string& text, double deadline,
                 std::string& why) {
  Answer message;
  message.verdict = verdict;
  put_text(message.text, text);
  if (send_all(socket, &message, sizeof(message), deadline, why)) return true;
  socket.shut_down();
  return false;
}
std::string text_of(const Answer& answer) { return take_text(answer.text); }

std::string names_of(const std::set<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

void raise_silent(const std::set<int>& ranks, int rank, const Endpoint& at, double seconds,
                  const std::string& when) {
  const bool one = ranks.size() == 1;
  raise<DistError>(
      "[dist] {} {} not been heard of for {:.1f} s by rank {} at {}{}: {} stopped, or {} has",
      names_of(ranks), one ? "has" : "have", seconds, rank, at.str(), when,
      one ? "it has" : "they have", one ? "its host" : "their host");
}

Hello make_hello(int rank, int size, uint16_t port, uint64_t mesh, const std::string& token) {
  Hello hello;
  hello.rank = rank, hello.size = size, hello.port = port, hello.mesh = mesh;
  put_text(hello.build, build());
  put_text(hello.token, token);
  return hello;
}

Fault fault_of(const Hello& hello, const Expected& expected) {
  const Hello like = make_hello(0, 0, 0, 0, expected.token);
  const auto differs = [](const auto& x, const auto& y) {
    return std::memcmp(x, y, sizeof(x)) != 0;
  };
  if (differs(hello.magic, like.magic)) return {"this is no rank of brim", true};
  if (hello.byte_order != like.byte_order) return {"the machines order bytes differently", true};
  if (differs(hello.token, like.token))
    return {"it is of another run: the token differs (BRIM_TOKEN, or the launcher's job number)",
            true};
  if (differs(hello.build, like.build))
    return {fmt::format("rank {} is brim {}, and rank {} brim {}; use one build", hello.rank,
                        take_text(hello.build), expected.rank, take_text(like.build))};
  if (hello.size != expected.size)
    return {fmt::format("rank {} is in a world of {}, and rank {} in one of {}", hello.rank,
                        hello.size, expected.rank, expected.size)};
  if (hello.rank < 0 || hello.rank >= hello.size)
    return {fmt::format("rank {} of a world of {}", hello.rank, hello.size)};
  if (hello.rank < expected.first || hello.rank == expected.rank)
    return {fmt::format("rank {} is there already", hello.rank)};
  if (hello.mesh - expected.mesh >= static_cast<uint64_t>(expected.meshes))
    return {"it is of another group of the same run"};
  if (hello.port > 65535)
    return {fmt::format("rank {} listens on port {}", hello.rank, hello.port)};
  return {};
}

HandshakeResult handshake(const Socket& socket, const Hello& hello, double deadline,
                          std::string& why) {
  Answer message;
  if (!send_all(socket, &hello, sizeof(hello), deadline, why) ||
      !receive_all(socket, &message, sizeof(message), deadline, why))
    return HandshakeResult::no_answer;
  why = text_of(message);
  if (message.verdict == Answer::Verdict::other_run) return HandshakeResult::other_run;
  BRIM_CHECK(message.verdict == Answer::Verdict::accepted, DistError,
             "[dist] rank {} was turned away at {}: {}", hello.rank, other_end(socket).str(), why);
  return HandshakeResult::accepted;
}

}  // namespace brim::dist
