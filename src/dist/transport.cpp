#include "dist/transport.h"

#include <fstream>
#include <vector>

#include "core/check.h"
#include "core/hash.h"
#include "core/host_name.h"
#include "core/printable.h"

namespace brim::dist {
namespace {

const char* name_of(CallKind kind) {
  constexpr const char* kNames[] = {"barrier",
                                    "all_gather_text",
                                    "duplicate",
                                    "the start of MPI (BRIM_DIST_BACKEND)",
                                    "the first call on tensors of this device",
                                    "all_reduce",
                                    "broadcast",
                                    "all_gather",
                                    "reduce_scatter",
                                    "all_to_all",
                                    "send"};
  const auto at = static_cast<size_t>(kind);
  return at < std::size(kNames) ? kNames[at] : "something unknown";
}

const char* name_of(Reduce reduce) {
  constexpr const char* kNames[] = {"sum", "product", "min", "max"};
  const auto at = static_cast<size_t>(reduce);
  return at < std::size(kNames) ? kNames[at] : "?";
}

}  // namespace

std::string Call::str() const {
  std::string text = name_of(kind);
  if (kind == CallKind::all_reduce || kind == CallKind::reduce_scatter)
    text += fmt::format(" ({})", name_of(reduce));
  if (kind >= CallKind::all_reduce) {
    text +=
        fmt::format(" of {} {}", elements,
                    static_cast<int>(dtype) < kDTypeCount ? name(dtype) : "of an unknown dtype");
    if (tensors > 1) text += fmt::format(" in {} tensors", tensors);
    if (virtual_ranks > 0) text += fmt::format(" over {} virtual ranks", virtual_ranks);
  }
  if (kind == CallKind::broadcast) text += fmt::format(" from rank {}", root);
  if (number > 0) text += fmt::format(", call {}", number);
  return text;
}

std::string Transport::fault() {
  {
    const std::lock_guard lock(mutex_);
    if (!noted_.empty()) return noted_;
  }
  return peers_fault();
}

void Transport::note_fault(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (noted_.empty()) noted_ = why;
}

void Transport::meet(const Call& call) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    out.push_back({peer, nullptr, 0});
    in.push_back({peer, nullptr, 0});
  }
  exchange(call, out, in);
}

void raise_mismatch(int rank, const Call& call, size_t bytes, int peer, const Call& theirs,
                    size_t their_bytes) {
  const std::string mine = call.str(), other = theirs.str();
  raise<DistError>(
      "[dist] rank {} calls {}{}, and rank {} calls {}{}; all ranks must call the same functions "
      "in "
      "the same order, with the same shapes",
      rank, mine, mine == other ? fmt::format(" with {} B", bytes) : "", peer, other,
      mine != other                  ? ""
      : bytes != their_bytes         ? fmt::format(" with {} B", their_bytes)
      : call.shapes != theirs.shapes ? " with tensors of other shapes, or of other parameters"
                                     : " with other arguments");
}

void raise_gone(int rank, const Call& call, const std::string& peer, const std::string& why) {
  raise<DistError>("[dist] {} has ended, and rank {} waits for it in {}: {}", peer, rank,
                   call.str(), printable(why));
}

void raise_fault(int rank, const Call& call, const std::string& fault) {
  raise<DistError>("[dist] rank {} cannot finish {}: {}", rank, call.str(), fault);
}

void raise_timeout(int rank, const Call& call, const std::string& peers, double seconds) {
  raise<DistError>(
      "[dist] rank {} has waited {:g} s in {} for {}: it hangs, or is slower than that "
      "(GroupOptions::timeout)",
      rank, seconds, call.str(), peers);
}

void Transport::set_ranks_per_host(int count) {
  BRIM_CHECK(count > 0 && size_ % count == 0, ValueError,
             "[dist] {} ranks are not {} on each host; give a number that divides them", size_,
             count);
  ranks_per_host_ = count;
}

uint64_t this_host() {
  std::string text;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!std::getline(file, text)) {
    text = host_name();
  }
  return xxh64(text.data(), text.size(), 0);
}

void exchange_rows(Transport& transport, const Call& call, void* rows, size_t bytes) {
  const auto at = [&](int rank) {
    return static_cast<char*>(rows) + static_cast<size_t>(rank) * bytes;
  };
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int r = 0; r < transport.size(); ++r) {
    if (r == transport.rank()) continue;
    out.push_back({r, at(transport.rank()), bytes});
    in.push_back({r, at(r), bytes});
  }
  transport.exchange(call, out, in);
}

void find_ranks_per_host(Transport& transport) {
  const auto size = static_cast<size_t>(transport.size());
  std::vector<uint64_t> hosts(size, this_host());
  exchange_rows(transport, {}, hosts.data(), sizeof(uint64_t));
  size_t each = 1;
  while (each < size && hosts[each] == hosts[0]) ++each;
  bool regular = size % each == 0;
  for (size_t r = 0; r < size && regular; ++r) regular = hosts[r] == hosts[r / each * each];
  if (regular) transport.set_ranks_per_host(static_cast<int>(each));
}

}  // namespace brim::dist
