#include <brim/dist/trace.h>

#include <brim/autograd/autograd.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/clock.h"
#include "core/host_name.h"
#include "dist/clock_difference.h"
#include "dist/transport.h"

namespace brim::dist {
namespace {

constexpr int64_t kMostBytes = 1 << 20;  // in one message

/// What a rank tells the others before its events.
struct Head {
  bool has_trace = false;
  uint64_t host = 0;
  double begin = 0;  // of its steady clock
  int64_t dropped = 0;
  std::string name;  // of the host

  std::string text() const {
    return fmt::format("{} {} {:.17g} {} {}", has_trace ? 1 : 0, host, begin, dropped, name);
  }
  static Head of(const std::string& text, size_t rank) {
    Head head;
    std::istringstream words(text);
    words >> head.has_trace >> head.host >> head.begin >> head.dropped >> head.name;
    BRIM_CHECK(words && head.dropped >= 0, DistError,
               "[dist] rank {} says '{}' of its trace, which nobody understands", rank, text);
    return head;
  }
};

/// In pieces, and an empty one at the end.
void send_events(ProcessGroup& group, const diag::Trace& trace, const diag::TraceProcess& process) {
  const auto send_piece = [&](std::string_view piece) {
    const auto bytes = static_cast<int64_t>(piece.size());
    send(group, Tensor::from({bytes}, {1}, Device::cpu()), 0);
    if (bytes == 0) return;
    const auto* first = reinterpret_cast<const uint8_t*>(piece.data());
    send(group, Tensor::from(std::span(first, piece.size()), {bytes}, Device::cpu()), 0);
  };
  trace.write_events(
      [&](std::string_view piece) {
        for (; !piece.empty(); piece.remove_prefix(std::min<size_t>(piece.size(), kMostBytes)))
          send_piece(piece.substr(0, kMostBytes));
      },
      process);
  send_piece("");
}

void receive_events(ProcessGroup& group, int from, const diag::TraceSink& sink) {
  while (true) {
    Tensor size = Tensor::from({int64_t{0}}, {1}, Device::cpu());
    receive(group, size, from);
    const int64_t bytes = size.item<int64_t>();
    BRIM_CHECK(bytes >= 0 && bytes <= kMostBytes, DistError,
               "[dist] rank {} announces {} B of its trace; at most {} come at once", from, bytes,
               kMostBytes);
    if (bytes == 0) return;
    Tensor text = Tensor::empty({bytes}, u8, {});
    receive(group, text, from);
    sink({reinterpret_cast<const char*>(text.data<uint8_t>()), static_cast<size_t>(bytes)});
  }
}

}  // namespace

double clock_difference(ProcessGroup& group, int rank) {
  constexpr int kRounds = 20;
  double quickest = 1e9, difference = 0;
  Tensor time = Tensor::from({0.0}, {1}, Device::cpu());
  for (int round = 0; round < kRounds; ++round) {
    if (group.rank() == 0) {
      receive(group, time, rank);
      send(group, Tensor::from({steady_seconds()}, {1}, Device::cpu()), rank);
      continue;
    }
    const double sent = steady_seconds();
    send(group, time, 0);
    receive(group, time, 0);
    const double back = steady_seconds();
    if (back - sent >= quickest) continue;
    quickest = back - sent;
    difference = time.item<double>() - (sent + back) / 2;
  }
  return difference;
}

int64_t write_trace(ProcessGroup& group, const diag::Trace* trace, const diag::TraceSink& sink) {
  const NoGrad guard;
  Head own{.has_trace = trace != nullptr, .host = this_host(), .name = host_name()};
  own.begin = trace ? trace->begin_seconds() : steady_seconds();
  if (trace) own.dropped = trace->dropped();
  const std::vector<std::string> texts = group.all_gather_text(own.text());
  std::vector<Head> heads;
  std::set<uint64_t> hosts;
  int64_t dropped = 0;
  for (size_t r = 0; r < texts.size(); ++r) {
    heads.push_back(Head::of(texts[r], r));
    hosts.insert(heads[r].host);
    dropped += heads[r].dropped;
  }
  const auto process_of = [&](int rank, double difference) {
    const Head& head = heads[static_cast<size_t>(rank)];
    std::string name = fmt::format("rank {}", rank);
    if (hosts.size() > 1) name += fmt::format(" on {}", head.name);
    return diag::TraceProcess{.number = rank,
                              .name = std::move(name),
                              .later_us = (head.begin + difference - heads[0].begin) * 1e6};
  };
  const auto write_all = [&](const diag::TraceSink& to) {
    bool any = false;
    for (int r = 0; r < group.size(); ++r) {
      const Head& head = heads[static_cast<size_t>(r)];
      if (!head.has_trace || (group.rank() != 0 && group.rank() != r)) continue;
      bool first = true;
      const auto add = [&](std::string_view piece) {
        if (first && any) to(",\n");
        first = false, any = true;
        to(piece);
      };
      const bool same_clock = head.host == heads[0].host;
      const double difference = same_clock ? 0 : clock_difference(group, r);
      if (r == 0)
        trace->write_events(add, process_of(r, difference));
      else if (group.rank() == r)
        send_events(group, *trace, process_of(r, difference));
      else
        receive_events(group, r, add);
    }
  };
  if (group.rank() == 0)
    diag::Trace::write(sink, write_all, dropped);
  else
    write_all({});
  return group.rank() == 0 ? dropped : 0;
}

}  // namespace brim::dist
