// See holding.h.
#include "plan/holding.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace brim::plan {

/// Others read it while a plan adds to it: what is in the list stays there as long as any plan has
/// the storage.
struct Holding::All {
  struct Shared {
    Ref<TensorImpl> tensor;
    std::atomic<uint32_t> handles;  // of plans; the list has another one
    Shared* next;
  };

  uint32_t holdings = 0;
  std::atomic<uint32_t> own = 0;
  std::atomic<Shared*> first = nullptr;

  ~All() {
    for (const Shared* s = first; s;) delete std::exchange(s, s->next);
  }

  Shared& shared(TensorImpl* tensor) {
    for (Shared* s = first; s; s = s->next)
      if (s->tensor.get() == tensor) return *s;
    first = new Shared{Ref<TensorImpl>(tensor), 0, first};
    return *first;
  }
};

// Plans may end after main().
struct Holding::Table {
  std::mutex mutex;  // for changes of what is in it, too
  std::unordered_map<const Storage*, All> of;

  static Table& get() {
    static auto& table = *new Table;
    return table;
  }
};

Holding::Holding(Ref<Storage> storage, uint32_t own, std::map<TensorImpl*, uint32_t> shared)
    : storage_(std::move(storage)), own_(own + 1), shared_(std::move(shared)) {
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  all_ = &table.of[storage_.get()];
  ++all_->holdings;
  all_->own += own_;
  for (const auto& [tensor, handles] : shared_) all_->shared(tensor).handles += handles;
}

Holding::~Holding() {
  if (!storage_) return;
  Table& table = Table::get();
  const std::lock_guard lock(table.mutex);
  all_->own -= own_;
  for (const auto& [tensor, handles] : shared_) all_->shared(tensor).handles -= handles;
  if (--all_->holdings == 0) table.of.erase(storage_.get());
}

bool Holding::is_held_by_others() const {
  uint32_t handles = all_->own;
  for (const All::Shared* s = all_->first; s; s = s->next) {
    if (s->tensor->storage != storage_) continue;  // it has moved
    if (s->tensor->use_count() > s->handles + 1) return true;
    ++handles;
  }
  return storage_->use_count() > handles;
}

}  // namespace brim::plan
