// Checkpoints of loops of one's own. state.json names the objects and says where the loop is;
// values.safetensors has the values: numbers as scalars, text as bytes, so that nothing is rounded.
#include <brim/train/checkpoint.h>

#include <brim/autograd/autograd.h>
#include <brim/version.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cpu/runtime/isa.h"
#include "backend/launch_policy.h"
#include "core/printable.h"
#include "diag/span.h"
#include "train/checkpoint_files.h"
#include "train/checkpoint_json.h"
#include "train/checkpoint_shards.h"
#include "train/checkpointer.h"
#include "train/loader_state.h"
#include "train/object_state.h"
#include "train/run_folder.h"

namespace brim::train {
namespace {

constexpr const char* kValues = "values";

/// An object or a value.
struct Entry {
  std::string name;
  const char* kind;
  Checkpoint::State state;

  /// Ranks that train one network have the same tensors there. Others are rank 0's.
  bool may_be_cut() const {
    return std::string_view(kind) == "Module" || std::string_view(kind) == "Optimizer";
  }
};

/// The one tensor of a value.
const Tensor& value_of(const StateDict& state, DType dtype, int rank) {
  const Tensor& t = state.at("");
  BRIM_CHECK(t.dtype() == dtype && t.rank() == rank, ValueError,
             "it is a tensor of {}, and now {} of rank {}", t.shape().str(), name(dtype), rank);
  return t;
}

template <class T>
Checkpoint::State number_state(T& value) {
  return {.save =
              [&value] {
                return StateDict{{"", Tensor::from<T>({value}, {}, Device::cpu())}};
              },
          .load =
              [&value](const StateDict& state) {
                value = value_of(state, dtype_of<T>, 0).template item<T>();
              }};
}

void load_tensor(Tensor& value, const StateDict& state) {
  const NoGrad guard;
  const Tensor& saved = state.at("");
  if (!value.defined()) {
    value = saved;
    return;
  }
  BRIM_CHECK(value.shape() == saved.shape() && value.dtype() == saved.dtype(), ValueError,
             "it is {} {}, and now {} {}", saved.shape().str(), name(saved.dtype()),
             value.shape().str(), name(value.dtype()));
  value.copy_(saved);
}

bool is_name(const std::string& name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 100 && name[0] != '.' && name != kValues &&
         std::ranges::all_of(name, good);
}

bool is_value(const Entry& entry) { return std::string_view(entry.kind) == "value"; }

std::string state_text(const LoopPosition& at, const BestCheckpoint& best, const RandomKey& random,
                       const std::vector<Entry>& entries) {
  Json objects = Json::object();
  for (const Entry& entry : entries) objects[entry.name] = entry.kind;
  const Json json = {{"format", kCheckpointFormat},
                     {"version", BRIM_VERSION},
                     {"epochs", at.epoch},
                     {"batch", at.batch},
                     {"steps", at.steps},
                     {"best_steps", best.steps},
                     {"best_loss", std::isfinite(best.score) ? Json(best.score) : Json(nullptr)},
                     {"random_seed", random.seed},
                     {"random_offset", random.offset},
                     {"isa", cpu::arithmetic()},
                     {"objects", std::move(objects)}};
  return json.dump(2) + "\n";
}

}  // namespace

struct Checkpoint::Impl {
  Impl(const std::string& to, dist::GroupPtr ranks, const CheckpointOptions& o, Warn w)
      : folder(to), group(std::move(ranks)), options(o), warn(w ? std::move(w) : warn_on_stderr) {
    if (writes()) {
      make_folder(folder);
      lock.emplace(folder);
    }
    if (options.sharded && group && group->size() > 1)
      shards.emplace(*group, writes() ? folder : "");
    begin_writing(-1, {});  // checks the options
    if (lock && !lock->held())
      warn(fmt::format(
          "the file system of {} has no locks; make sure that no other run uses this folder",
          folder));
  }

  bool writes() const { return !group || group->rank() == 0; }
  void begin_writing(int64_t steps, const BestCheckpoint& best) {
    CheckpointShards* const together = shards ? &*shards : nullptr;
    checkpointer.emplace(together   ? together->folder()
                         : writes() ? folder
                                    : "",
                         options, steps, best, warn, together);
  }

  void add(const std::string& name, const char* kind, State state);
  /// Throws FileError where what was added is not what the checkpoint holds.
  void check_objects(const Json& objects, const std::string& path) const;
  LoopPosition load(const std::string& path);
  Snapshot snapshot(const LoopPosition& at);
  void begin(int64_t steps, const BestCheckpoint& best);

  const std::string folder;
  const dist::GroupPtr group;  // null for one rank
  const CheckpointOptions options;
  const Warn warn;
  std::optional<FolderLock> lock;  // of who writes, or leads who do
  std::optional<CheckpointShards> shards;
  std::vector<Entry> entries;
  std::optional<data::Loader> loader;
  LoopPosition place;  // what is saved or loaded, for a loader's state
  std::string resumed_from;
  bool begun = false;
  int64_t due_steps = 0;                     // when due() was asked last
  std::optional<Checkpointer> checkpointer;  // ends first: it may be writing
};

void Checkpoint::Impl::add(const std::string& name, const char* kind, State state) {
  BRIM_CHECK(is_name(name), ValueError,
             "[checkpoint] '{}' is no name for a part of a checkpoint; use letters, digits, '_', "
             "'-' and '.', and not \"{}\"",
             printable(name), kValues);
  BRIM_CHECK(std::ranges::none_of(entries, [&](const Entry& e) { return e.name == name; }),
             ValueError, "[checkpoint] '{}' was added before; give each part a name of its own",
             name);
  BRIM_CHECK(!begun, ValueError,
             "[checkpoint] '{}' is added after resume() or save(); add everything before", name);
  entries.push_back({name, kind, std::move(state)});
}

void Checkpoint::Impl::check_objects(const Json& objects, const std::string& path) const {
  BRIM_CHECK(objects.is_object(), FileError,
             "[checkpoint] {} has no valid 'objects'; the checkpoint is damaged", path);
  for (const auto& [name, kind] : objects.items()) {
    const auto entry = std::ranges::find(entries, name, &Entry::name);
    BRIM_CHECK(entry != entries.end(), FileError,
               "[resume] {} holds '{}', which was not added; add all that the loop which wrote it "
               "had, or begin in another folder",
               path, printable(name));
    BRIM_CHECK(kind == entry->kind, FileError,
               "[resume] '{}' is a {} in {}, and now a {}; add what the loop which wrote it had",
               name, kind.is_string() ? printable(kind.get<std::string>()) : "?", path,
               entry->kind);
  }
  for (const Entry& entry : entries)
    BRIM_CHECK(objects.contains(entry.name), FileError,
               "[resume] {} does not hold '{}', which was added; add all that the loop which wrote "
               "it had, and no more, or begin in another folder",
               path, entry.name);
}

LoopPosition Checkpoint::Impl::load(const std::string& path) {
  const std::string file = path + "/" + kStateFile;
  const Json json = read_checkpoint_json(file);
  const auto objects = json.find("objects");
  BRIM_CHECK(objects != json.end(), FileError,
             "[resume] {} was written by brim train, or a Trainer; go on with that, or begin in "
             "another folder",
             path);
  check_format(json_field<uint64_t>(json, "format", file), file);
  const LoopPosition at = {.epoch = json_count(json, "epochs", file),
                           .batch = json_count(json, "batch", file),
                           .steps = json_count(json, "steps", file)};
  const BestCheckpoint best = read_best(json, file);
  check_objects(*objects, path);
  const StateDict values = io::load_safetensors(path + "/" + kValues + ".safetensors");
  place = at;
  bool on_cpu = false;
  for (const Entry& entry : entries) {
    try {
      if (is_value(entry)) {
        const auto value = values.find(entry.name);
        BRIM_CHECK(value != values.end(), ValueError, "the value is not there");
        entry.state.load({{"", value->second}});
      } else {
        entry.state.load(io::load_safetensors(path + "/" + entry.name + ".safetensors"));
      }
    } catch (const FileError&) {
      throw;
    } catch (const Error& e) {
      raise<FileError>("[resume] '{}' of {} does not fit: {}", entry.name, path, e.what());
    }
    if (std::string_view(entry.kind) != "Module") continue;
    for (const auto& [_, tensor] : entry.state.save())
      on_cpu = on_cpu || !backend::has_own_kernels(tensor.device().kind);
  }
  Generator::global().set_state(read_random(json, file));
  const auto isa = json_field<std::string>(json, "isa", file);
  if (on_cpu && isa != cpu::arithmetic())
    warn(fmt::format(
        "{} was trained with the instruction set {} and goes on with {}: its weights will differ "
        "in the last bits from those of a run that was not stopped",
        path, printable(isa), cpu::arithmetic()));
  const bool best_is_there =
      best.steps > 0 &&
      std::ranges::count(list_checkpoints(folder), checkpoint_path(folder, best.steps)) > 0;
  begin(at.steps, best_is_there ? best : BestCheckpoint{});
  resumed_from = path;
  return at;
}

Snapshot Checkpoint::Impl::snapshot(const LoopPosition& at) {
  place = at;
  std::vector<TensorFile> files;
  StateDict values;
  for (const Entry& entry : entries) {
    StateDict state = entry.state.save();
    if (is_value(entry))
      values[entry.name] = state.at("");
    else
      files.push_back({entry.name, std::move(state), {}, entry.may_be_cut()});
  }
  files.push_back({kValues, std::move(values), {}});
  CheckpointShards* const together = shards ? &*shards : nullptr;
  if (together) together->cut(files, at.steps);
  std::vector<StateDict*> tensors;
  for (TensorFile& file : files) tensors.push_back(&file.tensors);
  const bool is_copy = options.background && copy_to_host(tensors);
  const RandomKey random = Generator::global().state();
  const auto write = [this, at, random, together, files = std::move(files)](
                         const std::string& path, const BestCheckpoint& best) {
    write_checkpoint_files(together, path, files, state_text(at, best, random, entries));
  };
  return {write, is_copy};
}

void Checkpoint::Impl::begin(int64_t steps, const BestCheckpoint& best) {
  if (lock && lock->held()) remove_leftovers(folder);
  begin_writing(steps, best);
  due_steps = std::max<int64_t>(steps, 0);
  begun = true;
}

Checkpoint::Checkpoint(const std::string& folder, const CheckpointOptions& options, Warn warn)
    : Checkpoint(folder, nullptr, options, std::move(warn)) {}
Checkpoint::Checkpoint(const std::string& folder, dist::GroupPtr group,
                       const CheckpointOptions& options, Warn warn) {
  try {
    impl_ = std::make_unique<Impl>(folder, group, options, std::move(warn));
  } catch (const std::exception& e) {
    if (group) group->abort(e.what());  // the others would wait in resume()
    throw;
  }
}
Checkpoint::~Checkpoint() = default;

void Checkpoint::add(const std::string& name, nn::Module& module) {
  impl_->add(name, "Module", state_of(module));
}
void Checkpoint::add(const std::string& name, optim::Optimizer& optimizer) {
  impl_->add(name, "Optimizer", state_of(optimizer));
}
void Checkpoint::add(const std::string& name, optim::Schedule& schedule) {
  impl_->add(name, "Schedule", state_of(schedule));
}
void Checkpoint::add(const std::string& name, optim::GradScaler& scaler) {
  impl_->add(name, "GradScaler", state_of(scaler));
}

void Checkpoint::add(const std::string& name, Generator& generator) {
  const auto save = [&generator] {
    const RandomKey key = generator.state();
    return StateDict{
        {"seed", Tensor::from<int64_t>({std::bit_cast<int64_t>(key.seed)}, {}, Device::cpu())},
        {"offset", Tensor::from<int64_t>({std::bit_cast<int64_t>(key.offset)}, {}, Device::cpu())}};
  };
  const auto load = [&generator](const StateDict& state) {
    const auto number = [&](const char* what) {
      const auto at = state.find(what);
      BRIM_CHECK(at != state.end() && at->second.dtype() == DType::i64 && at->second.numel() == 1,
                 ValueError, "it has no {}", what);
      return std::bit_cast<uint64_t>(at->second.item<int64_t>());
    };
    generator.set_state({.seed = number("seed"), .offset = number("offset")});
  };
  impl_->add(name, "Generator", {.save = save, .load = load});
}

void Checkpoint::add(const std::string& name, const data::Loader& loader) {
  BRIM_CHECK(
      !impl_->loader, ValueError,
      "[checkpoint] '{}' is a second loader, and there is one place in an epoch; add the one "
      "that the loop trains with",
      name);
  BRIM_CHECK(!impl_->group || impl_->group->size() == 1 || !loader.is_iterable(), ValueError,
             "[checkpoint] '{}' is iterable data, of which each rank has a state of its own, and "
             "rank 0's alone is kept; leave it out, and begin epochs anew",
             name);
  impl_->add(name, "Loader",
             {.save = [loader, &at = impl_->place] { return loader_state(loader, at); },
              .load = [loader, &at = impl_->place](
                          const StateDict& state) { load_loader(loader, at, state); }});
  impl_->loader = loader;
}

void Checkpoint::add(const std::string& name, State state) {
  impl_->add(name, "State", std::move(state));
}

void Checkpoint::add(const std::string& name, Tensor& value) {
  const auto save = [&value, name] {
    BRIM_CHECK(value.defined(), ValueError,
               "[checkpoint] the tensor '{}' is undefined when it is saved; give it a value", name);
    return StateDict{{"", value.detach()}};
  };
  impl_->add(name, "value", {.save = save, .load = [&value](const StateDict& state) {
                               load_tensor(value, state);
                             }});
}

void Checkpoint::add(const std::string& name, int64_t& value) {
  impl_->add(name, "value", number_state(value));
}

void Checkpoint::add(const std::string& name, double& value) {
  impl_->add(name, "value", number_state(value));
}

void Checkpoint::add(const std::string& name, std::string& value) {
  impl_->add(name, "value",
             {.save = [&value] { return text_state(value); },
              .load = [&value](const StateDict& state) { value = text_of(state.at("")); }});
}

LoopPosition Checkpoint::resume() {
  const diag::Scope scope("resume", diag::Cause::checkpoint);
  Impl& s = *impl_;
  BRIM_CHECK(!s.begun, ValueError,
             "[resume] {} is in use by this loop already; resume() comes first, and once",
             s.folder);
  FoundCheckpoint found;
  try {
    if (s.writes()) found = find_checkpoint(s.folder);
  } catch (const std::exception& e) {
    if (s.group) s.group->abort(e.what());
    throw;
  }
  if (s.group) found.path = s.group->all_gather_text(found.path)[0];
  for (const auto& damaged : found.damaged)
    s.warn(fmt::format("{} is damaged and not used: {}", damaged.path, damaged.reason));
  LoopPosition at;
  if (found.path.empty()) {
    s.begin(-1, {});
  } else {
    if (!found.damaged.empty())
      s.warn(fmt::format("going on from the older checkpoint {}", found.path));
    at = s.load(found.path);
  }
  for (const auto& damaged : found.damaged) set_aside(damaged.path);
  return at;
}

bool Checkpoint::due(const LoopPosition& at) {
  Impl& s = *impl_;
  if (s.loader && !s.loader->is_iterable() && at.batch == s.loader->batches()) return false;
  return s.checkpointer->due(at.steps, at.steps - std::exchange(s.due_steps, at.steps));
}

bool Checkpoint::save(const LoopPosition& at, std::optional<double> loss) {
  Impl& s = *impl_;
  BRIM_CHECK(at.epoch >= 0 && at.batch >= 0 && at.steps >= 0, ValueError,
             "[checkpoint] epoch {}, batch {}, step {}: none may be below 0", at.epoch, at.batch,
             at.steps);
  if (!s.writes() && !s.shards) return true;
  if (!s.begun) {
    BRIM_CHECK(!s.writes() || list_checkpoints(s.folder).empty(), FileError,
               "[checkpoint] {} holds a checkpoint already; go on from it with resume(), or choose "
               "another folder",
               s.folder);
    s.begin(-1, {});
  }
  const bool kept = s.checkpointer->save(
      at.steps, [&] { return s.snapshot(at); }, loss);
  if (kept) s.due_steps = at.steps;  // every_steps counts from here
  return kept;
}

bool Checkpoint::finish() { return impl_->checkpointer->finish(); }

const std::string& Checkpoint::resumed_from() const { return impl_->resumed_from; }
int64_t Checkpoint::written() const { return impl_->checkpointer->written(); }
int64_t Checkpoint::failures() const { return impl_->checkpointer->failures(); }

std::string Checkpoint::newest(const std::string& folder) {
  const diag::Scope scope("find a checkpoint", diag::Cause::checkpoint);
  return find_checkpoint(folder).path;
}

}  // namespace brim::train
