#include "diag/host_timeline.h"

#include <algorithm>

namespace brim::diag {

thread_local constinit HostTimeline* active_timeline = nullptr;

Shares HostTimeline::reasons(uint64_t from, uint64_t to) const {
  Shares shares{};
  if (to <= from) return shares;
  const size_t oldest = count_ > kPieces ? count_ - kPieces : 0;
  size_t first = oldest, last = count_;  // the piece that `from` lies in, or the oldest one
  while (last - first > 1) {
    const size_t middle = first + (last - first) / 2;
    (pieces_[middle % kPieces].begin > from ? last : first) = middle;
  }
  Cause lately = Cause::launch;
  uint64_t at = from;
  for (size_t i = first; i < count_ && at < to; ++i) {
    const Piece& piece = pieces_[i % kPieces];
    const uint64_t end = std::min(to, i + 1 < count_ ? pieces_[(i + 1) % kPieces].begin : to);
    const uint64_t begin = std::max(at, piece.begin);
    if (begin > at) shares[static_cast<size_t>(Cause::other)] += begin - at;  // forgotten
    at = std::max(at, begin);
    if (end <= at) continue;
    if (is_reason(piece.cause)) lately = piece.cause;
    shares[static_cast<size_t>(lately)] += end - at;
    at = end;
  }
  return shares;
}

}  // namespace brim::diag
