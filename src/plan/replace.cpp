#include "plan/replace.h"

#include <algorithm>

namespace brim::plan {
namespace {

const Launch* at(const Program& program, int i) {
  return program.launches[static_cast<size_t>(i)].get();
}

/// Written through one operand and used through another, in a way that is not allowed.
bool overlaps_itself(const Launch& launch, Overlap allowed) {
  const auto all = launch.operands();
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < all.size(); ++k)
      if (i != k && all[i].writes && all[i].tensor->defined() && all[k].tensor->defined() &&
          all[i].tensor->storage() == all[k].tensor->storage() &&
          (allowed == Overlap::refused || !same_elements(*all[i].tensor, *all[k].tensor)))
        return true;
  return false;
}

}  // namespace

bool conflict(std::span<const Operand> a, std::span<const Operand> b) {
  for (const Operand& x : a)
    for (const Operand& y : b)
      if ((x.writes || y.writes) && x.tensor->defined() && y.tensor->defined() &&
          x.tensor->storage() == y.tensor->storage())
        return true;
  return false;
}

bool can_move(const Program& program, int from, int to) {
  const auto [first, last] = std::minmax(from, to);
  for (int i = first; i <= last; ++i)
    if (i != from && at(program, i) &&
        conflict(at(program, i)->operands(), at(program, from)->operands()))
      return false;
  return true;
}

Replacement::Replacement(const Program& program, const Uses& uses, std::vector<Removed> removed)
    : program_(program), uses_(uses), removed_(std::move(removed)) {
  for (const Removed& r : removed_) {
    operands_.push_back(operands_of(r));
    for (const Operand& o : operands_.back()) removed_operands_.insert(o.tensor);
  }
}

std::vector<Operand> Replacement::operands_of(const Removed& r) const {
  const Launch& launch = *at(program_, r.launch);
  if (r.elements.empty()) return {launch.operands().begin(), launch.operands().end()};
  std::vector<Operand> all;
  for (const size_t i : r.elements)
    for (const Operand& o : launch.element(i)) all.push_back(o);
  return all;
}

bool Replacement::touched_by_others(const Storage& storage) const {
  for (const auto* list : {&uses_.readers(storage), &uses_.writers(storage)})
    for (const int i : *list)
      if (const Launch* launch = at(program_, i))
        for (const Operand& o : launch->operands())
          if (o.tensor->defined() && o.tensor->storage().get() == &storage && !is_removed(o))
            return true;
  return false;
}

bool Replacement::written_by_others(const Storage& storage, int first, int last) const {
  for (int i = first + 1; i < last; ++i)
    if (const Launch* launch = at(program_, i))
      for (const Operand& o : launch->operands())
        if (o.writes && o.tensor->defined() && o.tensor->storage().get() == &storage &&
            !is_removed(o))
          return true;
  return false;
}

/// What the launches wrote that go is written by the new ones, or nobody sees it.
bool Replacement::all_written(const std::vector<std::unique_ptr<Launch>>& launches) const {
  const auto written = [&](const Tensor& t) {
    return std::any_of(launches.begin(), launches.end(), [&](const auto& launch) {
      return std::any_of(launch->operands().begin(), launch->operands().end(),
                         [&](const Operand& o) {
                           return o.writes && o.tensor->defined() && same_elements(*o.tensor, t);
                         });
    });
  };
  const auto used = [&](const Tensor& t) {
    return std::any_of(launches.begin(), launches.end(), [&](const auto& launch) {
      return std::any_of(launch->operands().begin(), launch->operands().end(),
                         [&](const Operand& o) {
                           return o.tensor->defined() && o.tensor->storage() == t.storage();
                         });
    });
  };
  for (const std::vector<Operand>& operands : operands_)
    for (const Operand& o : operands)
      if (o.writes && o.tensor->defined() && !written(*o.tensor) &&
          (!program_.temporary(*o.tensor) || touched_by_others(*o.tensor->storage()) ||
           used(*o.tensor)))
        return false;
  return true;
}

bool Replacement::can_stand_at(int place, size_t part) const {
  for (size_t k = 0; k < removed_.size(); ++k) {
    if (removed_[k].part != part) continue;
    const auto [first, last] = std::minmax(removed_[k].launch, place);
    for (int i = first + 1; i < last; ++i) {
      const Launch* launch = at(program_, i);
      if (!launch) continue;
      std::vector<Operand> theirs;
      for (const Operand& o : launch->operands())
        if (!is_removed(o)) theirs.push_back(o);
      if (conflict(theirs, operands_[k])) return false;
    }
  }
  return true;
}

std::optional<std::vector<int>> Replacement::places(
    const std::vector<std::unique_ptr<Launch>>& launches, Overlap overlap) const {
  if (std::any_of(launches.begin(), launches.end(),
                  [&](const auto& launch) { return overlaps_itself(*launch, overlap); }) ||
      !all_written(launches))
    return std::nullopt;
  std::vector<int> found;
  int done = -1;  // the last launch of the parts before
  for (size_t part = 0; part < launches.size(); ++part) {
    std::vector<int> candidates;
    int last = done;
    for (const Removed& r : removed_) {
      if (r.part != part) continue;
      if (r.launch <= done) return std::nullopt;  // parts are one behind the other
      last = std::max(last, r.launch);
      if (r.elements.empty()) candidates.push_back(r.launch);
    }
    std::sort(candidates.begin(), candidates.end());
    const auto place = std::find_if(candidates.begin(), candidates.end(),
                                    [&](int i) { return can_stand_at(i, part); });
    if (place == candidates.end()) return std::nullopt;
    found.push_back(*place);
    done = last;
  }
  return found;
}

void Replacement::apply(Program& program, std::vector<std::unique_ptr<Launch>> launches,
                        const std::vector<int>& places) const {
  for (const Removed& r : removed_) {
    std::unique_ptr<Launch>& old = program.launches[static_cast<size_t>(r.launch)];
    if (!r.elements.empty()) {
      Launch& into = *launches[r.part];
      into.refresh = old->refresh;
      if (r.elements.size() < old->elements()) {
        old->drop_elements(r.elements);
        continue;
      }
      into.commit = std::move(old->commit);
    }
    old = nullptr;
  }
  for (size_t part = 0; part < launches.size(); ++part)
    program.launches[static_cast<size_t>(places[part])] = std::move(launches[part]);
}

}  // namespace brim::plan
