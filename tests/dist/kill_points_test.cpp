// A rank is lost at each of its exchanges in turn, in each way, in groups of several sizes: nobody
// hangs, and what the others say names it.
#include <brim/ops/create.h>

#include <chrono>

#include "dist/local_transport.h"
#include "dist/run_ranks.h"

namespace brim::dist {
namespace {

/// How a rank is lost.
enum class Way { throws, vanishes, differs };

/// Counts a rank's exchanges, those of duplicates included, and loses it at one of them.
struct Fate {
  int at = -1;  ///< never
  Way way = Way::throws;
  int exchanges = 0, last_call_begins = 0;
};

class Mortal final : public Transport {
 public:
  Mortal(std::unique_ptr<Transport> base, Fate& fate)
      : Transport(base->rank(), base->size()), base_(std::move(base)), fate_(fate) {}

  const char* backend() const override { return "mortal"; }
  double timeout() const override { return 20; }
  std::string peers_fault() override { return base_ ? base_->fault() : ""; }
  void abort(const std::string& why) noexcept override {
    if (base_) base_->abort(why);
  }
  void exchange(const Call& call, std::span<const Outgoing> out,
                std::span<const Incoming> in) override {
    Call made = call;
    if (fate_.exchanges++ == fate_.at) {
      if (fate_.way == Way::differs) {
        made.elements += 1;
      } else {
        if (fate_.way == Way::vanishes) base_.reset();
        throw std::runtime_error("lost");
      }
    }
    if (!base_) throw std::runtime_error("lost before");
    base_->exchange(made, out, in);
  }
  std::unique_ptr<Transport> duplicate(const Call& call, double timeout) override {
    return std::make_unique<Mortal>(base_->duplicate(call, timeout), fate_);
  }

 private:
  std::unique_ptr<Transport> base_;
  Fate& fate_;
};

/// Every kind of call, and at last one for which each rank needs each other one.
void work(ProcessGroup& group, Fate& fate) {
  const int64_t size = group.size(), rank = group.rank();
  const auto numbers = [](int64_t n) { return arange(n, {.dtype = f32}); };
  Tensor few = numbers(3), many = numbers(1000);
  all_reduce(group, few);
  all_reduce(group, many, Reduce::max);
  broadcast(group, many, static_cast<int>(size - 1));
  Tensor rows = numbers(size * 5).reshape({size, 5}), row = numbers(5), swapped = zeros({size, 5});
  all_gather(group, row, rows);
  reduce_scatter(group, rows, row);
  all_to_all(group, rows, swapped);
  if (rank > 0) receive(group, row, static_cast<int>(rank - 1));
  if (rank + 1 < size) send(group, row, static_cast<int>(rank + 1));
  (void)group.all_gather_text("text");
  const GroupPtr other = group.duplicate();
  all_reduce(*other, few);
  other->barrier();
  fate.last_call_begins = fate.exchanges;
  group.barrier();
}

/// What each rank threw when they meet these fates.
std::vector<std::string> lose(int size, std::vector<Fate>& fates) {
  std::vector<GroupPtr> groups;
  for (std::unique_ptr<Transport>& t : local_transports(size, 20)) {
    Fate& fate = fates[static_cast<size_t>(t->rank())];
    groups.push_back(std::make_shared<ProcessGroup>(std::make_unique<Mortal>(std::move(t), fate)));
  }
  return failures_of(size, [&](int rank) {
    const GroupPtr own = std::move(groups[static_cast<size_t>(rank)]);  // it goes with the rank
    work(*own, fates[static_cast<size_t>(rank)]);
  });
}

TEST(KillPoints, EachOfEachRank) {
  int cases = 0;
  for (const int size : {2, 3, 4, 5, 6, 8}) {
    std::vector<Fate> counted(static_cast<size_t>(size));
    for (const std::string& failure : lose(size, counted)) ASSERT_EQ(failure, "");
    for (int victim = 0; victim < size; ++victim)
      for (int at = 0; at < counted[static_cast<size_t>(victim)].exchanges; ++at)
        for (const Way way : {Way::throws, Way::vanishes, Way::differs}) {
          std::vector<Fate> fates(static_cast<size_t>(size));
          fates[static_cast<size_t>(victim)] = {.at = at, .way = way};
          const auto begin = std::chrono::steady_clock::now();
          const std::vector<std::string> failures = lose(size, fates);
          const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
          const std::string what = fmt::format("rank {} of {} at exchange {}, way {}", victim, size,
                                               at, static_cast<int>(way));
          EXPECT_LT(took.count(), 5) << what;
          const bool needed = at < counted[static_cast<size_t>(victim)].last_call_begins;
          for (int rank = 0; rank < size; ++rank) {
            const std::string& failure = failures[static_cast<size_t>(rank)];
            if (rank == victim) continue;
            EXPECT_TRUE(!needed || !failure.empty())
                << what << ": rank " << rank << " did not notice";
            // Those who noticed may be what others noticed; their words are passed on.
            EXPECT_TRUE(failure.empty() || way == Way::differs ||
                        has(failure, fmt::format("rank {}", victim)))
                << what << ": " << failure;
          }
          ++cases;
        }
  }
  EXPECT_GE(cases, 1000);
  RecordProperty("cases", cases);
}

}  // namespace
}  // namespace brim::dist
