#include "plan/rewriter.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "backend/has_kernel.h"
#include "core/check.h"
#include "plan/pattern.h"
#include "plan/replace.h"

namespace brim::plan {
namespace {

using backend::Launches;
using backend::Rewrite;
using Kind = PatternLaunch::Kind;
using Names = std::set<std::string, std::less<>>;
/// What the patterns of a rewrite call tensors and launches.
struct Words {
  Names names, labels;
};

bool is_plain(const Launch& launch) { return !launch.refresh && !launch.commit && !launch.draw; }

bool is_one_of(const Launch& launch, const std::vector<std::string>& kernels) {
  return std::find(kernels.begin(), kernels.end(), launch.name()) != kernels.end();
}

/// Looks for one pattern around one launch, trying what may be there before what may be missing.
class Matcher final : public backend::Match {
 public:
  Matcher(const Rewrite& rewrite, const Words& words, const Pattern& pattern, Program& program,
          const Uses& uses)
      : rewrite_(rewrite),
        words_(words),
        pattern_(pattern),
        program_(program),
        uses_(uses),
        found_(pattern.launches.size()) {}

  /// True if the program has been rewritten.
  bool match(int root) {
    const auto required = [](const PatternLaunch& l) { return l.kind == Kind::required; };
    const auto first = static_cast<size_t>(
        std::find_if(pattern_.launches.begin(), pattern_.launches.end(), required) -
        pattern_.launches.begin());
    dtype_ = at(root).dtype();
    return try_launch(first, root);
  }

  const Tensor& operator[](std::string_view name) const override {
    static const Tensor none;
    BRIM_CHECK(words_.names.contains(name), Error, "[rewrite] {}: no pattern has '{}'",
               rewrite_.name, name);
    const auto at = bound_.find(name);
    return at == bound_.end() ? none : at->second.tensor;
  }
  std::span<const Tensor> list(std::string_view name) const override {
    BRIM_CHECK(words_.names.contains(name), Error, "[rewrite] {}: no pattern has '{}'",
               rewrite_.name, name);
    const auto at = lists_.find(name);
    return at == lists_.end() ? std::span<const Tensor>() : at->second;
  }
  const Launch* find(std::string_view label) const override {
    const int i = index_of(label);
    return i < 0 ? nullptr : &at(i);
  }
  bool seen_by_others(std::string_view name) const override {
    const Tensor& t = (*this)[name];
    return t.defined() && (!program_.temporary(t) || replacement().touched_by_others(*t.storage()));
  }
  bool unchanged_since(std::string_view label, std::string_view name) const override {
    const Tensor& t = (*this)[name];
    int last = 0;
    for (const Found& f : found_) last = std::max(last, f.launch);
    return !t.defined() || !replacement().written_by_others(*t.storage(), index_of(label), last);
  }
  Tensor make(const Shape& shape, DType dtype, MemoryFormat format) override {
    return program_.make(shape, dtype, format);
  }
  Device device() const override { return program_.device; }
  DType dtype() const override { return dtype_; }

 private:
  struct Found {
    int launch = -1;
    size_t element = 0;
    bool decided = false;  ///< found, or taken for missing
  };
  /// What a name stands for. Pointwise launches see a tensor in any shape, others in theirs.
  struct Named {
    Tensor tensor;
    bool any_shape;
  };
  using Bound = std::map<std::string, Named, std::less<>>;
  using Lists = std::map<std::string, std::vector<Tensor>, std::less<>>;

  const Launch& at(int i) const { return *program_.launches[static_cast<size_t>(i)]; }

  int index_of(std::string_view label) const {
    BRIM_CHECK(words_.labels.contains(label), Error, "[rewrite] {}: no pattern has a launch '{}'",
               rewrite_.name, label);
    for (size_t k = 0; k < pattern_.launches.size(); ++k)
      if (pattern_.launches[k].label == label) return found_[k].launch;
    return -1;
  }

  /// Takes launch `index` for the pattern's k-th and goes on with the others.
  bool try_launch(size_t k, int index) {
    const PatternLaunch& wanted = pattern_.launches[k];
    const Launch& launch = at(index);
    if (!is_one_of(launch, wanted.kernels) || is_taken(index, wanted)) return false;
    if (wanted.kind != Kind::witness && !wanted.element &&
        ((launch.dtype() != dtype_ && !rewrite_.mixed_dtypes) || !is_plain(launch)))
      return false;
    for (const size_t element :
         wanted.element ? possible_elements(wanted, launch) : std::vector<size_t>{0}) {
      const Bound bound = bound_;
      const Lists lists = lists_;
      if (wanted.element ? bind_element(wanted, launch, element) : bind(wanted, launch)) {
        found_[k] = {index, element, true};
        if (go_on()) return true;
        found_[k] = {};
      }
      bound_ = bound;
      lists_ = lists;
    }
    return false;
  }

  /// Those whose tensor is the one that is known already.
  std::vector<size_t> possible_elements(const PatternLaunch& wanted, const Launch& launch) const {
    std::vector<size_t> found;
    const PatternOperand* known = known_operand(wanted);
    if (!known) return found;
    const Tensor& tensor = (*this)[known->name];
    const auto list = launch.operands(known->operand);
    const size_t each = std::max<size_t>(list.size() / std::max<size_t>(launch.elements(), 1), 1);
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].tensor->defined() && list[i].tensor->storage() == tensor.storage() &&
          (found.empty() || found.back() != i / each))
        found.push_back(i / each);
    return found;
  }

  bool is_taken(int index, const PatternLaunch& wanted) const {
    for (size_t k = 0; k < found_.size(); ++k)
      if (found_[k].launch == index && !(wanted.element && pattern_.launches[k].element))
        return true;
    return false;
  }

  bool bind(const PatternLaunch& wanted, const Launch& launch) {
    const bool any_shape = launch.work() == backend::Work::pointwise;
    return std::all_of(
        wanted.operands.begin(), wanted.operands.end(),
        [&](const PatternOperand& o) { return bind(o, launch.operand(o.operand), any_shape); });
  }
  bool bind_element(const PatternLaunch& wanted, const Launch& launch, size_t element) {
    const std::vector<Operand> mine = launch.element(element);
    for (const PatternOperand& o : wanted.operands) {
      std::vector<Tensor> tensors;
      for (const Operand& m : mine)
        if (launch.traits(m).name == o.operand) tensors.push_back(*m.tensor);
      if (tensors.size() == 1 && !bind(o, tensors[0], true)) return false;
      lists_[o.name] = std::move(tensors);
    }
    return true;
  }
  bool bind(const PatternOperand& o, const Tensor& t, bool any_shape) {
    if (o.left_out || (o.may_be_left_out && !t.defined())) return !t.defined();
    if (o.transposed && t.rank() != 2) return false;
    const Tensor seen = o.transposed ? t.transpose(0, 1) : t;
    const auto known = bound_.find(o.name);
    if (known == bound_.end()) {
      bound_.emplace(o.name, Named{seen, any_shape});
      return true;
    }
    Named& before = known->second;
    if (before.tensor.defined() != seen.defined()) return false;
    if (!seen.defined() || same_view(before.tensor, seen)) return true;
    if (!(any_shape || before.any_shape) || !same_elements(before.tensor, seen)) return false;
    if (!any_shape) before = {seen, false};
    return true;
  }

  /// Decides about the next launch of the pattern; at the end, about the whole.
  bool go_on() {
    const std::optional<size_t> next = next_launch();
    if (!next) return finish();
    const PatternLaunch& wanted = pattern_.launches[*next];
    for (const int candidate : candidates(wanted))
      if (try_launch(*next, candidate)) return true;
    if (wanted.kind != Kind::optional && wanted.kind != Kind::bridged) return false;
    const Bound bound = bound_;
    found_[*next].decided = true;
    if ((wanted.kind == Kind::optional || bridge(wanted)) && go_on()) return true;
    found_[*next].decided = false;
    bound_ = bound;
    return false;
  }

  /// The first undecided one that shares a tensor with what is known; else one that may be missing.
  std::optional<size_t> next_launch() const {
    std::optional<size_t> missing;
    for (size_t k = 0; k < pattern_.launches.size(); ++k) {
      if (found_[k].decided) continue;
      const PatternLaunch& l = pattern_.launches[k];
      if (known_operand(l)) return k;
      if (!missing && l.kind != Kind::bridged) missing = k;
    }
    return missing;
  }
  const PatternOperand* known_operand(const PatternLaunch& wanted) const {
    for (const PatternOperand& o : wanted.operands)
      if (const auto known = bound_.find(o.name);
          known != bound_.end() && known->second.tensor.defined())
        return &o;
    return nullptr;
  }

  std::vector<int> candidates(const PatternLaunch& wanted) const {
    const PatternOperand* known = known_operand(wanted);
    if (!known) return {};
    const Storage& storage = *(*this)[known->name].storage();
    std::vector<int> all = uses_.readers(storage);
    const std::vector<int>& writers = uses_.writers(storage);
    all.insert(all.end(), writers.begin(), writers.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::erase_if(all, [&](int i) { return !program_.launches[static_cast<size_t>(i)]; });
    return all;
  }

  /// The launch is missing: what it would read is what it would write.
  bool bridge(const PatternLaunch& wanted) {
    const std::string &in = wanted.operands.front().name, &out = wanted.operands.back().name;
    const auto from = bound_.find(in), to = bound_.find(out);
    if (from != bound_.end() && to != bound_.end())
      return same_elements(from->second.tensor, to->second.tensor);
    if (from != bound_.end()) {
      const Named named = from->second;
      bound_.emplace(out, named);
    } else if (to != bound_.end()) {
      const Named named = to->second;
      bound_.emplace(in, named);
    }
    return true;
  }

  std::vector<Removed> removed() const {
    std::vector<Removed> all;
    for (size_t k = 0; k < found_.size(); ++k) {
      const PatternLaunch& l = pattern_.launches[k];
      if (found_[k].launch < 0 || l.kind == Kind::witness) continue;
      if (!l.element) {
        all.push_back({found_[k].launch, {}, l.part});
        continue;
      }
      auto same = std::find_if(all.begin(), all.end(), [&](const Removed& r) {
        return r.launch == found_[k].launch && !r.elements.empty();
      });
      if (same == all.end()) same = all.insert(all.end(), {found_[k].launch, {}, l.part});
      same->elements.push_back(found_[k].element);
      std::sort(same->elements.begin(), same->elements.end());
    }
    return all;
  }
  Replacement replacement() const { return {program_, uses_, removed()}; }

  /// What a name stands for is the same from its first launch to its last: written before it is
  /// read, updated by an optimizer after that, and by nobody else in between.
  bool names_hold(const Replacement& r) const {
    for (const auto& [name, named] : bound_) {
      if (!named.tensor.defined()) continue;
      int first = -1, last = -1, written = -1, read = -1, last_read = -1, updated = -1;
      for (size_t k = 0; k < found_.size(); ++k) {
        const int i = found_[k].launch;
        const PatternOperand* o = i < 0 ? nullptr : operand_of(pattern_.launches[k], name);
        if (!o) continue;
        first = first < 0 ? i : std::min(first, i);
        last = std::max(last, i);
        const Launch& launch = at(i);
        const auto& traits = launch.traits(launch.operands(o->operand)[0]);
        if (pattern_.launches[k].element && traits.writes)
          updated = updated < 0 ? i : std::min(updated, i);
        else if (!traits.reads)
          written = std::max(written, i);
        else
          read = read < 0 ? i : std::min(read, i), last_read = std::max(last_read, i);
      }
      if (written >= 0 && read >= 0 && read < written) return false;
      if (updated >= 0 && updated < last_read) return false;  // an optimizer's step comes last
      if (r.written_by_others(*named.tensor.storage(), first, last)) return false;
    }
    return true;
  }
  static const PatternOperand* operand_of(const PatternLaunch& l, std::string_view name) {
    for (const PatternOperand& o : l.operands)
      if (o.name == name) return &o;
    return nullptr;
  }

  bool one_launch_of_lists() const {
    int lists = -1;
    for (size_t k = 0; k < found_.size(); ++k)
      if (pattern_.launches[k].element && found_[k].launch >= 0) {
        if (lists >= 0 && lists != found_[k].launch) return false;
        lists = found_[k].launch;
      }
    return true;
  }

  bool finish() {
    if (!one_launch_of_lists()) return false;
    const Replacement r = replacement();
    if (!names_hold(r) || (rewrite_.pays && !rewrite_.pays(*this))) return false;
    Launches launches = rewrite_.build(*this);
    if (launches.size() != pattern_.parts) return false;
    const auto places = r.places(launches, rewrite_.in_place ? Overlap::same : Overlap::refused);
    if (!places) return false;
    r.apply(program_, std::move(launches), *places);
    drop_witnesses();
    return true;
  }
  /// Those that nobody else looked at.
  void drop_witnesses() {
    const Uses now(program_);
    for (size_t k = 0; k < found_.size(); ++k) {
      const int i = found_[k].launch;
      if (pattern_.launches[k].kind != Kind::witness || i < 0 || !is_plain(at(i))) continue;
      const Replacement alone(program_, now, {{i, {}, 0}});
      const auto operands = at(i).operands();
      if (std::none_of(operands.begin(), operands.end(), [&](const Operand& o) {
            return o.writes && o.tensor->defined() &&
                   (!program_.temporary(*o.tensor) ||
                    alone.touched_by_others(*o.tensor->storage()));
          }))
        program_.launches[static_cast<size_t>(i)] = nullptr;
    }
  }

  const Rewrite& rewrite_;
  const Words& words_;
  const Pattern& pattern_;
  Program& program_;
  const Uses& uses_;
  DType dtype_{};
  std::vector<Found> found_;  // of the pattern's launches
  Bound bound_;
  Lists lists_;
};

/// Looks around every launch of the program, again where something was found.
int apply_pattern(const Rewrite& rewrite, const Words& words, const Pattern& pattern,
                  Program& program) {
  const PatternLaunch& root =
      *std::find_if(pattern.launches.begin(), pattern.launches.end(),
                    [](const PatternLaunch& l) { return l.kind == Kind::required; });
  int count = 0;
  std::optional<Uses> uses;
  for (int i = 0; i < static_cast<int>(program.launches.size());) {
    const Launch* launch = program.launches[static_cast<size_t>(i)].get();
    const bool possible =
        launch && is_one_of(*launch, root.kernels) &&
        std::all_of(rewrite.kernels.begin(), rewrite.kernels.end(), [&](const std::string& name) {
          return backend::has_kernel(name, program.device, launch->dtype());
        });
    if (possible && !uses) uses.emplace(program);
    if (!possible || !Matcher(rewrite, words, pattern, program, *uses).match(i)) {
      ++i;
      continue;
    }
    ++count;
    uses.reset();
  }
  program.compact();
  return count;
}

/// A rewrite with its patterns, read.
struct Readable {
  const Rewrite* rewrite;
  std::set<std::string> kernels;  ///< that its patterns have
  size_t launches = 0;            ///< that it may replace at most
};

Readable read(const Rewrite& rewrite) {
  Readable r{&rewrite, {}};
  for (const std::string& text : rewrite.patterns) {
    const Pattern pattern = read_pattern(text);
    r.launches = std::max(r.launches, pattern.launches.size());
    for (const PatternLaunch& l : pattern.launches)
      r.kernels.insert(l.kernels.begin(), l.kernels.end());
  }
  return r;
}

bool needs(const Readable& r, const Readable& other) {
  return std::any_of(other.rewrite->kernels.begin(), other.rewrite->kernels.end(),
                     [&](const std::string& kernel) { return r.kernels.contains(kernel); });
}

}  // namespace

int apply_rewrite(const Rewrite& rewrite, Program& program) {
  std::vector<Pattern> patterns;
  Words words;
  for (const std::string& text : rewrite.patterns) {
    patterns.push_back(read_pattern(text));
    for (const PatternLaunch& l : patterns.back().launches) {
      words.labels.insert(l.label);
      for (const PatternOperand& o : l.operands) words.names.insert(o.name);
    }
  }
  int count = 0;
  for (const Pattern& pattern : patterns) count += apply_pattern(rewrite, words, pattern, program);
  return count;
}

std::vector<const Rewrite*> rewrites_in_order() {
  std::vector<Readable> waiting;
  for (const Rewrite* rewrite : backend::rewrites()) waiting.push_back(read(*rewrite));
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const Readable& a, const Readable& b) { return a.launches > b.launches; });
  std::vector<const Rewrite*> order;
  while (!waiting.empty()) {
    const auto next = std::find_if(waiting.begin(), waiting.end(), [&](const Readable& r) {
      return std::none_of(waiting.begin(), waiting.end(), [&](const Readable& other) {
        return other.rewrite != r.rewrite && needs(r, other);
      });
    });
    BRIM_CHECK(next != waiting.end(), Error, "[rewrite] '{}' and others need each other's kernels",
               waiting[0].rewrite->name);
    order.push_back(next->rewrite);
    waiting.erase(next);
  }
  return order;
}

}  // namespace brim::plan
