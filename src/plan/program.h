// A program: the launches of a step in their order, over tensors that have sizes but no memory yet.
// Passes rewrite it. Two tensors overlap only if they share a storage, so dependences are followed
// by storage.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <brim/core/random.h>
#include <brim/core/tensor.h>
#include <brim/plan/memory_fit.h>

#include "backend/launch.h"
#include "core/same_elements.h"

namespace brim::plan {

using backend::Launch;
using backend::Operand;

/// Where the memory of a storage comes from.
enum class Role : uint8_t {
  temporary,  ///< made and used up inside the step: the plan's arena
  input,      ///< the caller's, another one at each step
  output,     ///< handed to the caller
  kept,       ///< made by the step, seen by others afterwards (a gradient that stays)
  external,   ///< was there before: parameters, optimizer state, running statistics
  host        ///< a temporary's place in pinned memory of the host, while the device needs its own
};

/// All of a storage, as u8.
Tensor as_bytes(const Ref<Storage>& storage);

/// All of a storage of f32.
Tensor as_floats(const Ref<Storage>& storage);
/// All of a storage, as elements of a type.
Tensor as_elements(const Ref<Storage>& storage, DType dtype);

/// A handle to the same elements over other memory.
Tensor over(const Tensor& t, const Ref<Storage>& storage);

struct Program {
  std::vector<std::unique_ptr<Launch>> launches;
  std::vector<Tensor> inputs, outputs;
  Device device;
  int64_t eager_peak = 0;  ///< bytes of live temporaries while the step was recorded
  size_t recorded_launches = 0;
  int64_t recorded_bytes = 0;  ///< of these launches' operands (traffic.h)

  /// How many numbers a generator draws in one step.
  struct Draws {
    Generator* generator;
    uint64_t count;
  };
  std::vector<Draws> draws;

  /// Told by passes that take long how much is done; may be empty.
  std::function<void(double fraction)> progress;
  bool fixed_layouts = false;  ///< CompileOptions::fixed_layouts
  /// Of the passes that choose together.
  bool may_offload = false, may_recompute = false, may_round = false;
  MemoryPolicy memory_policy = MemoryPolicy::shortest;  ///< CompileOptions::memory_policy
  /// Bytes that a step like this was seen to need besides temporaries, for scratch memory.
  int64_t reserve = 0;
  /// Bytes of the host that may be pinned for it: fewer where the system had no more.
  int64_t host_limit = std::numeric_limits<int64_t>::max();
  int64_t host_refused = std::numeric_limits<int64_t>::max();  ///< what it did not pin
  /// How the step was fitted into the memory that there is; empty where it fits as it is.
  std::optional<MemoryFit> fitted;
  /// Kept of the host's room for what is moved there, until the plan has taken it.
  std::shared_ptr<void> host_room;

  Role role(const Storage& storage) const;
  /// True for tensors that nobody sees outside the step.
  bool temporary(const Tensor& t) const { return role(*t.storage()) == Role::temporary; }
  void set_role(const Storage& storage, Role role) { roles_[&storage] = role; }
  /// Of one that nothing uses any more: another one may have its address.
  void forget(const Storage& storage) { roles_.erase(&storage); }
  /// A new temporary, dense in `format`.
  Tensor make(const Shape& shape, DType dtype, MemoryFormat format = MemoryFormat::nchw);
  /// `bytes` of pinned memory of the host.
  Tensor make_on_host(size_t bytes);
  /// Removes the launches that were set to null.
  void compact();
  /// Storages that are used, in the order of their first use.
  std::vector<const Storage*> storages() const;

 private:
  std::unordered_map<const Storage*, Role> roles_;  // without an entry: external
};

/// Which launches use a storage. A snapshot: make a new one after changing the program.
class Uses {
 public:
  explicit Uses(const Program& program);
  /// Launches that may write it, in order; the same for those that read it. A written operand is
  /// not counted as read, though a kernel may (Launch::traits).
  const std::vector<int>& writers(const Storage& storage) const;
  const std::vector<int>& readers(const Storage& storage) const;
  const std::vector<int>& writers(const Tensor& t) const { return writers(*t.storage()); }
  const std::vector<int>& readers(const Tensor& t) const { return readers(*t.storage()); }
  /// The only launch that writes it, or -1.
  int writer(const Tensor& t) const;
  /// The only launch that reads it, or -1.
  int reader(const Tensor& t) const;

 private:
  struct Entry {
    std::vector<int> writers, readers;
  };
  std::unordered_map<const Storage*, Entry> entries_;
  Entry none_;
};

/// True if the launch is `name`.
bool is(const Launch& launch, std::string_view name);
/// "" if both do the same with the same memory, else what differs first. `without`: launches of
/// `a`, by their place, that do not count.
std::string difference(const Program& a, const Program& b, const std::set<size_t>& without = {});

}  // namespace brim::plan
