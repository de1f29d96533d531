// Ranks that are threads of one process. A sender shows the receiver its memory and waits until
// that has copied it, so nothing is copied twice.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "backend/sim/pacer.h"
#include "core/check.h"
#include "dist/link_speed.h"
#include "dist/local_transport.h"

namespace brim::dist {
namespace {

/// Why a rank has ended that left as it should.
constexpr const char* kLeft = "its group is gone";

using Clock = std::chrono::steady_clock;

/// A message that waits for its receiver; it lies on the sender's stack.
struct Post {
  enum class State : uint8_t { waiting, copying, taken };
  const Call& call;
  const void* data;
  size_t bytes;
  Clock::time_point sent;
  State state = State::waiting;
};

/// From one rank to another.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Post*> posts;
};

/// What the ranks share.
class Hub {
 public:
  Hub(int size, double timeout, const std::optional<Links>& links)
      : timeout(timeout),
        links(links),
        size_(size),
        mailboxes_(static_cast<size_t>(size) * static_cast<size_t>(size)),
        ended_(static_cast<size_t>(size)) {}

  Mailbox& mailbox(int from, int to) {
    return mailboxes_[static_cast<size_t>(from) * static_cast<size_t>(size_) +
                      static_cast<size_t>(to)];
  }
  /// Why the rank does nothing any more; "" if it does.
  std::string ended(int rank) {
    const std::lock_guard lock(mutex_);
    return ended_[static_cast<size_t>(rank)];
  }
  void end(int rank, const std::string& why, bool duplicates) {
    std::map<uint64_t, std::shared_ptr<Hub>> others;
    {
      const std::lock_guard lock(mutex_);
      std::string& text = ended_[static_cast<size_t>(rank)];
      if (text.empty()) text = why;
      if (duplicates) others = duplicates_;
    }
    for (const auto& [number, hub] : others) hub->end(rank, why, true);
    for (int other = 0; other < size_; ++other)
      for (Mailbox* box : {&mailbox(rank, other), &mailbox(other, rank)}) {
        { const std::lock_guard lock(box->mutex); }  // nobody is between a look and a wait
        box->changed.notify_all();
      }
  }
  /// The hub of the n-th duplicate.
  std::shared_ptr<Hub> duplicate(uint64_t n, double its_timeout) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Hub>& hub = duplicates_[n];
    if (!hub) hub = std::make_shared<Hub>(size_, its_timeout, links);
    return hub;
  }

  const double timeout;
  const std::optional<Links> links;  // whose time exchanges take

 private:
  const int size_;
  std::vector<Mailbox> mailboxes_;
  std::mutex mutex_;
  std::vector<std::string> ended_;
  std::map<uint64_t, std::shared_ptr<Hub>> duplicates_;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<Hub> hub, int rank, int size)
      : Transport(rank, size), hub_(std::move(hub)) {}
  ~LocalTransport() override { hub_->end(rank(), kLeft, false); }

  const char* backend() const override { return "local"; }
  const Links* paced() const override { return hub_->links ? &*hub_->links : nullptr; }

  void exchange(const Call& call, std::span<const Outgoing> out,
                std::span<const Incoming> in) override {
    std::deque<Post> posts;
    auto begin = Clock::now();  // of the last one that joins it
    for (const Outgoing& o : out) {
      Mailbox& box = hub_->mailbox(rank(), o.to);
      const std::lock_guard lock(box.mutex);
      box.posts.push_back(&posts.emplace_back(Post{call, o.data, o.bytes, begin}));
      box.changed.notify_all();
    }
    try {
      for (const Incoming& i : in) begin = std::max(begin, receive(call, i));
      for (size_t i = 0; i < out.size(); ++i) wait_until_taken(call, out[i].to, posts[i]);
    } catch (...) {
      for (size_t i = 0; i < out.size(); ++i) take_back(out[i].to, posts[i]);
      throw;
    }
    if (!hub_->links) return;
    const std::chrono::duration<double> time(
        std::max(seconds_over_links(out), seconds_over_links(in)) +
        (call.kind == CallKind::all_reduce ? seconds_through_memory(in) : 0));
    sim::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(time));
  }

  std::unique_ptr<Transport> duplicate(const Call& call, double timeout) override {
    return std::make_unique<LocalTransport>(hub_->duplicate(call.number, timeout), rank(), size());
  }

  void abort(const std::string& why) noexcept override { hub_->end(rank(), why, true); }
  double timeout() const override { return hub_->timeout; }
  std::string peers_fault() override {
    for (int other = 0; other < size(); ++other)
      if (const std::string why = other == rank() ? "" : hub_->ended(other);
          !why.empty() && why != kLeft)
        return fmt::format("rank {} has given up: {}", other, why);
    return "";
  }

 private:
  /// What messages to ranks of this host take, and then those to others, which share its link.
  template <class Message>
  double seconds_over_links(std::span<const Message> messages) const {
    const Links& links = *hub_->links;
    const int each = ranks_per_host();
    double seconds = 0;
    for (const bool here : {true, false}) {
      int count = 0;
      double bytes = 0;
      for (const Message& m : messages) {
        if ((peer_of(m) / each == rank() / each) != here) continue;
        ++count;
        bytes += static_cast<double>(m.bytes);
      }
      if (count == 0) continue;
      const double bandwidth = here ? links.device : links.host / each;
      seconds += (here ? links.device_delay : links.host_delay) + links.message * count +
                 bytes / bandwidth;
    }
    return seconds;
  }
  double seconds_through_memory(std::span<const Incoming> in) const {
    const int each = ranks_per_host();
    double here = 0, across = 0;
    for (const Incoming& i : in)
      (i.from / each == rank() / each ? here : across) += static_cast<double>(i.bytes);
    return dist::seconds_through_memory(*hub_->links, each, size() / each, here, across);
  }
  static int peer_of(const Outgoing& o) { return o.to; }
  static int peer_of(const Incoming& i) { return i.from; }

  /// Waits until `done()`, which looks at what the mailbox's mutex guards.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, Mailbox& box, const Call& call, int peer,
            const Done& done) {
    const auto begin = std::chrono::steady_clock::now();
    while (!done()) {
      if (const std::string why = hub_->ended(peer); !why.empty())
        raise_gone(rank(), call, fmt::format("rank {}", peer), why);
      if (hub_->timeout <= 0) {
        box.changed.wait(lock);
        continue;
      }
      const auto end = begin + std::chrono::duration<double>(hub_->timeout);
      if (std::chrono::steady_clock::now() >= end)
        raise_timeout(rank(), call, fmt::format("rank {}", peer), hub_->timeout);
      box.changed.wait_until(lock, std::chrono::time_point_cast<std::chrono::nanoseconds>(end));
    }
  }

  /// Returns when it was sent.
  Clock::time_point receive(const Call& call, const Incoming& in) {
    Mailbox& box = hub_->mailbox(in.from, rank());
    std::unique_lock lock(box.mutex);
    wait(lock, box, call, in.from, [&] { return !box.posts.empty(); });
    Post& post = *box.posts.front();
    if (!(post.call == call) || post.bytes != in.bytes)
      raise_mismatch(rank(), call, in.bytes, in.from, post.call, post.bytes);
    box.posts.pop_front();
    post.state = Post::State::copying;
    const Clock::time_point sent = post.sent;
    lock.unlock();
    if (in.bytes > 0) std::memcpy(in.data, post.data, in.bytes);
    lock.lock();
    post.state = Post::State::taken;
    box.changed.notify_all();
    return sent;
  }

  void wait_until_taken(const Call& call, int to, const Post& post) {
    Mailbox& box = hub_->mailbox(rank(), to);
    std::unique_lock lock(box.mutex);
    wait(lock, box, call, to, [&] { return post.state != Post::State::waiting; });
    box.changed.wait(lock, [&] { return post.state == Post::State::taken; });
  }

  /// Behind this nobody reads the message any more.
  void take_back(int to, Post& post) {
    Mailbox& box = hub_->mailbox(rank(), to);
    std::unique_lock lock(box.mutex);
    box.changed.wait(lock, [&] { return post.state != Post::State::copying; });
    std::erase(box.posts, &post);
  }

  const std::shared_ptr<Hub> hub_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> local_transports(int size, double timeout,
                                                         const Links* links) {
  BRIM_CHECK(size > 0, ValueError, "[dist] a group of {} ranks; give 1 or more", size);
  const auto hub =
      std::make_shared<Hub>(size, timeout, links ? std::optional(*links) : std::nullopt);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < size; ++rank)
    transports.push_back(std::make_unique<LocalTransport>(hub, rank, size));
  return transports;
}

std::vector<GroupPtr> local_groups(int size, const GroupOptions& options) {
  std::vector<GroupPtr> groups;
  for (std::unique_ptr<Transport>& transport : local_transports(size, options.timeout))
    groups.push_back(std::make_shared<ProcessGroup>(std::move(transport), options));
  return groups;
}

std::vector<GroupPtr> paced_groups(int size, const Links& links, const GroupOptions& options) {
  (void)all_reduce_seconds(links, size, 0);
  BRIM_CHECK(!links.ring, ValueError,
             "[dist] paced groups move bytes as brim does, and not around a ring; leave "
             "Links::ring out, or forecast with a simulated_group()");
  GroupOptions own = options;
  if (links.ranks_per_host > 0) own.ranks_per_host = links.ranks_per_host;
  std::vector<GroupPtr> groups;
  for (std::unique_ptr<Transport>& transport : local_transports(size, options.timeout, &links))
    groups.push_back(std::make_shared<ProcessGroup>(std::move(transport), own));
  return groups;
}

}  // namespace brim::dist
