// How the ranks of a group exchange bytes. The collectives are written once over it; a backend
// moves messages, and notices ranks that do something else, have ended or do not answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>

#include <brim/core/device.h>
#include <brim/core/dtype.h>
#include <brim/dist/links.h>
#include <brim/dist/process_group.h>

namespace brim::dist {

enum class CallKind : uint8_t {
  barrier,
  text,
  duplicate,
  start_mpi,
  connect,
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  send,
};

/// What a rank calls. It goes before each message, and must be what the receiver calls.
struct Call {
  uint64_t number = 0;   ///< of the group's calls; 0 between two ranks alone
  int64_t elements = 0;  ///< in all tensors
  uint64_t shapes = 0;   ///< a hash of them
  uint32_t tensors = 0;
  uint32_t virtual_ranks = 0;
  int32_t root = 0;
  CallKind kind = CallKind::barrier;
  DType dtype = DType::f32;
  Reduce reduce = Reduce::sum;
  uint8_t is_replayed = 0;  ///< a graph may make it again without the host: it has no number

  bool operator==(const Call&) const = default;
  /// "all_reduce of 62006 f32 in 10 tensors".
  std::string str() const;
};

/// What goes before each message between processes.
struct Frame {
  Call call;
  uint64_t bytes = 0;
};
static_assert(sizeof(Frame) == 48 && std::is_trivially_copyable_v<Frame>);

struct Outgoing {
  int to;
  const void* data;
  size_t bytes;
};
struct Incoming {
  int from;
  void* data;
  size_t bytes;
};

class Transport {
 public:
  Transport(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  virtual const char* backend() const = 0;
  /// How many ranks there are on each host: ranks 0, 1, ... on the first one, and so on. All of
  /// them where hosts have different numbers.
  int ranks_per_host() const { return ranks_per_host_; }
  /// Throws ValueError if hosts would have different numbers.
  void set_ranks_per_host(int count);
  /// Links that are modelled, to ranks that do not exist. Null for real ones.
  virtual const Links* modelled() const { return nullptr; }
  /// Modelled links whose time exchanges with real ranks take. Null: they take their own.
  virtual const Links* paced() const { return nullptr; }

  /// Returns when everything has come and everything that goes out may be written again. Messages
  /// between two ranks come in their order. Throws DistError; then the group is of no use any more.
  virtual void exchange(const Call& call, std::span<const Outgoing> out,
                        std::span<const Incoming> in) = 0;
  /// Returns when all ranks have called it.
  void meet(const Call& call = {});
  /// Another one between the same ranks, with its own timeout(). Called by all of them.
  virtual std::unique_ptr<Transport> duplicate(const Call& call, double timeout) = 0;
  /// Other ranks that wait for this one, or will, get a DistError with `why`.
  virtual void abort(const std::string& why) noexcept = 0;
  /// What has gone wrong with another rank, or with what connects the devices, or ""; as far as
  /// this one knows. From any thread.
  std::string fault();
  void note_fault(const std::string& why);
  /// Seconds that a call waits for a rank from which nothing comes; 0: without an end.
  virtual double timeout() const = 0;

  /// What carries messages from device to device beside this: the device's backend makes it at the
  /// first call on tensors there, and it holds this transport, so it goes before it does.
  std::shared_ptr<void>& links_of(Device device) { return links_[device.str()]; }
  void drop_links() { links_.clear(); }

 protected:
  virtual std::string peers_fault() = 0;

 private:
  const int rank_, size_;
  int ranks_per_host_ = size_;
  std::mutex mutex_;
  std::string noted_;
  std::map<std::string, std::shared_ptr<void>> links_;
};

/// Gives each rank the rows of all others: `rows` has one of `bytes` for each rank, of which this
/// rank's is filled in. Called by all ranks; throws DistError as Transport::exchange() does.
void exchange_rows(Transport& transport, const Call& call, void* rows, size_t bytes);

/// A number that no other host has.
uint64_t this_host();
/// Settles with the other ranks how many there are on each host: those whose kernel was booted once
/// are on one.
void find_ranks_per_host(Transport& transport);

/// What a message said that is another one than expected.
[[noreturn]] void raise_mismatch(int rank, const Call& call, size_t bytes, int peer,
                                 const Call& theirs, size_t their_bytes);
[[noreturn]] void raise_gone(int rank, const Call& call, const std::string& peer,
                             const std::string& why);
/// `fault`: which other rank, and why.
[[noreturn]] void raise_fault(int rank, const Call& call, const std::string& fault);
[[noreturn]] void raise_timeout(int rank, const Call& call, const std::string& peers,
                                double seconds);

template <class F>
void ProcessGroup::run(const Call& call, const F& use) {
  const std::lock_guard lock(mutex_);
  check_alive();
  try {
    use(*transport_, begin(call));
  } catch (const std::exception& e) {
    failed(e.what());
    throw;
  }
  end();
}

}  // namespace brim::dist
