#include "plan/first_use.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "plan/plan.h"

namespace brim::plan {
namespace {

using Launches = std::set<size_t>;  // by their place in the program

/// Gives what the first run kept and `steady` reads its real name in the first program, too.
std::vector<Ref<Storage>> take_names(Recording& first, const Program& steady) {
  const std::vector<const Storage*> known = steady.storages();
  const auto is_used = [&](const Storage* s) {
    return std::find(known.begin(), known.end(), s) != known.end() ||
           std::any_of(steady.outputs.begin(), steady.outputs.end(),
                       [&](const Tensor& t) { return t.storage().get() == s; });
  };
  std::unordered_map<const Storage*, Ref<Storage>> names;  // by their twins
  std::vector<Ref<Storage>> made;
  for (const auto& [storage, twin] : first.kept) {
    if (!is_used(storage.get())) continue;
    names[twin.get()] = storage;
    if (storage->uncomputed) made.push_back(storage);
  }
  const auto rename = [&](Tensor& t) {
    if (!t.defined()) return;
    const auto found = names.find(t.storage().get());
    if (found != names.end()) t.impl()->storage = found->second;
  };
  for (const auto& launch : first.program.launches)
    for (const Operand& o : launch->operands()) rename(*o.tensor);
  for (Tensor& t : first.program.outputs) rename(t);
  return made;
}

class FirstUse {
 public:
  FirstUse(Recording& first, const Program& steady)
      : program_(first.program),
        steady_(steady),
        made_(take_names(first, steady)),
        steady_uses_(steady),
        uses_(program_) {
    for (const Program::Draws& d : program_.draws) {
      uint64_t each_step = 0;
      for (const Program::Draws& s : steady.draws)
        if (s.generator == d.generator) each_step = s.count;
      if (d.count > each_step) draws_.push_back({d.generator, d.count - each_step});
    }
  }

  const std::vector<Ref<Storage>>& made() const { return made_; }

  /// Leaves in the program what computes them, after a look at all the rest.
  void keep_only() {
    for (const Ref<Storage>& s : made_) find_makers(*s);
    for (const size_t i : makers_) need(i);
    for (const auto& launch : program_.launches) undo_draws(*launch);
    const std::string differs = difference(program_, steady_, done_once());
    BRIM_CHECK(differs.empty(), CompileError,
               "[compile] the first run of the step does more than make tensors: {}; do so before "
               "the first step",
               differs);
    for (size_t i = 0; i < program_.launches.size(); ++i)
      if (!needed_.contains(i)) program_.launches[i] = nullptr;
    program_.compact();
    program_.outputs.clear();
    program_.draws = draws_;
    for (const Storage* s : program_.storages())
      if (program_.role(*s) == Role::kept || program_.role(*s) == Role::output)
        program_.set_role(*s, Role::temporary);
  }

 private:
  const Launch& at(size_t i) const { return *program_.launches[i]; }
  bool was_made(const Storage& s) const {
    return std::any_of(made_.begin(), made_.end(), [&](const auto& m) { return m.get() == &s; });
  }

  /// What a later step does to it, the first one did as well, after it had made it.
  void find_makers(const Storage& storage) {
    const std::vector<int>& writers = uses_.writers(storage);
    const size_t each_step = steady_uses_.writers(storage).size();
    BRIM_CHECK(writers.size() > each_step, CompileError,
               "[compile] the step keeps what '{}' made in its first run, and never gives it a "
               "value before it changes it; make the tensor before the first step",
               storage.uncomputed);
    makers_.insert(writers.begin(), writers.end() - static_cast<ptrdiff_t>(each_step));
  }

  /// Launch i and what it depends on, which may not be what the step itself changes.
  void need(size_t i) {
    if (!needed_.insert(i).second) return;
    const Launch& launch = at(i);
    bool alone = !launch.refresh && !launch.commit;
    if (launch.draw)
      alone &= std::any_of(draws_.begin(), draws_.end(), [&](const Program::Draws& d) {
        return d.generator == launch.draw->generator && launch.draw->index < d.count;
      });
    for (const Operand& o : launch.operands()) {
      if (!o.tensor->defined()) continue;
      const Storage& storage = *o.tensor->storage();
      const bool external = program_.role(storage) == Role::external;
      if (external && o.writes) alone &= makers_.contains(i) && was_made(storage);
      for (const int w : uses_.writers(storage)) {
        const auto writer = static_cast<size_t>(w);
        if (writer >= i) break;
        if (external)
          alone &= makers_.contains(writer);
        else
          need(writer);
      }
    }
    BRIM_CHECK(alone, CompileError,
               "[compile] the first run of the step makes a tensor and keeps it, and '{}' on the "
               "way there depends on or changes what each step does; make the tensor before the "
               "first step",
               launch.name());
  }

  /// Launches that only the tensors' making needs.
  Launches done_once() const {
    Launches once = makers_;
    for (auto i = needed_.rbegin(); i != needed_.rend(); ++i) {
      const auto unread = [&](const Tensor& t) {
        const std::vector<int>& readers = uses_.readers(*t.storage());
        return program_.role(*t.storage()) == Role::temporary &&
               std::all_of(readers.begin(), readers.end(),
                           [&](int r) { return once.contains(static_cast<size_t>(r)); });
      };
      const auto operands = at(*i).operands();
      if (std::all_of(operands.begin(), operands.end(), [&](const Operand& o) {
            return !o.writes || !o.tensor->defined() || unread(*o.tensor);
          }))
        once.insert(*i);
    }
    return once;
  }

  /// The numbers that a launch of the step gets where the tensors are there already.
  void undo_draws(Launch& launch) const {
    if (!launch.draw) return;
    for (const Program::Draws& d : draws_)
      if (d.generator == launch.draw->generator && launch.draw->index >= d.count) {
        launch.draw->index -= d.count;
        launch.option<RandomKey>()->offset -= d.count;
      }
  }

  Program& program_;
  const Program& steady_;
  const std::vector<Ref<Storage>> made_;
  const Uses steady_uses_, uses_;
  std::vector<Program::Draws> draws_;  // more than in later steps
  Launches makers_, needed_;
};

}  // namespace

void compute_first_use(Recording first, const Program& steady, std::span<const Tensor> inputs,
                       const PassSelection& passes) {
  FirstUse use(first, steady);
  use.keep_only();
  if (use.made().empty()) return;
  std::vector<Tensor> dense;
  for (const Tensor& t : inputs) dense.push_back(t.detach().contiguous());
  std::vector<const char*> makers;
  for (const Ref<Storage>& s : use.made()) makers.push_back(s->uncomputed);
  try {
    for (const Ref<Storage>& s : use.made()) give_memory(*s);
    Plan plan({.program = std::move(first.program)}, passes);
    plan.replay(dense);
  } catch (...) {
    for (size_t i = 0; i < makers.size(); ++i) {
      use.made()[i]->rebind(nullptr);
      use.made()[i]->uncomputed = makers[i];
    }
    throw;
  }
}

}  // namespace brim::plan
