#include "plan/recorder.h"

#include <brim/core/random.h>

#include <algorithm>

#include "autograd/autocast.h"
#include "autograd/node.h"
#include "core/check.h"
#include "core/runtime.h"
#include "core/with_storage.h"
#include "plan/traffic.h"

namespace brim::plan {
namespace {

Tensor gradient_of(const TensorImpl& leaf) {
  return leaf.autograd ? leaf.autograd->grad : Tensor();
}

class Recorder final : public backend::LaunchRecorder {
 public:
  Recorder(std::span<const Tensor> inputs, std::vector<std::function<void()>>* undo_host,
           bool passes)
      : undo_host_(undo_host) {
    for_passes = passes;
    Program& p = result_.program;
    if (!inputs.empty()) p.device = inputs[0].device();
    recording = this;
    for (const Tensor& t : inputs) {
      inputs_.push_back(Tensor::empty(t.shape(), t.dtype(), t.device()));
      const Ref<Storage>& twin = twins_.at(inputs_.back().storage().get());
      p.set_role(*twin, Role::input);
      p.inputs.push_back(with_storage(inputs_.back(), twin));
    }
    live_ = peak_ = 0;
  }
  ~Recorder() {
    if (!recording) return;
    restore();
    inputs_.clear();
    recording = nullptr;
    for (const auto& [storage, twin] : twins_) leave_behind(*storage, *twin);
  }

  std::span<const Tensor> inputs() const { return inputs_; }

  Ref<Storage> make_storage(size_t bytes, Device device) override {
    Ref<Storage> made = Storage::wrap(nullptr, bytes, device, {});
    made->recorded = true;
    Ref<Storage> twin = Storage::wrap(nullptr, bytes, device, {});
    result_.program.set_role(*twin, Role::temporary);
    twins_[made.get()] = std::move(twin);
    live_ += static_cast<int64_t>(bytes);
    peak_ = std::max(peak_, live_);
    return made;
  }
  void storage_ends(const Storage& storage) noexcept override {
    twins_.erase(const_cast<Storage*>(&storage));
    live_ -= static_cast<int64_t>(storage.bytes());
  }

  void drew(Generator& generator, const RandomKey& key) override {
    const auto known = std::find_if(drawn_.begin(), drawn_.end(),
                                    [&](const Drawn& d) { return d.generator == &generator; });
    if (known != drawn_.end())  // the parts of a batch draw at the same offsets
      known->count = std::max(known->count, key.offset - known->first.offset + 1);
    else
      drawn_.push_back({&generator, key, 1});
    for (const Drawn& d : drawn_)
      if (d.generator != &generator && d.holds(key))
        refuse("a second generator of the same seed",
               "their numbers could not be told apart; seed them differently");
  }

  void grad_changes(TensorImpl& leaf, bool cleared) override {
    if (leaf.storage->recorded) return;  // made by the step, so it ends with it
    const auto [at, fresh] = leaves_.try_emplace(&leaf, gradients_.size());
    if (!fresh) return;
    gradients_.push_back({Ref<TensorImpl>(&leaf), gradient_of(leaf), {}, cleared});
  }

  void viewed(TensorImpl& base) override { note_seen(base); }
  void at_end(std::function<void()> undo) override { undo_.push_back(std::move(undo)); }
  void uses(backend::HostState state) override {
    (undo_host_ ? *undo_host_ : undo_).push_back(state.undo);
    result_.host.push_back(std::move(state));
  }

  void refuse(const char* op, const char* why) override {
    raise<CompileError>("[compile] {} inside a compiled step: {}", op, why);
  }

  void launched(std::unique_ptr<Launch> launch) override {
    Program& p = result_.program;
    if (p.launches.empty() && inputs_.empty()) p.device = launch->device();
    BRIM_CHECK(launch->device() == p.device, CompileError,
               "[compile] {} runs on {} in a step on {}; a plan works on one device",
               launch->name(), launch->device().str(), p.device.str());
    for (const Operand& o : launch->operands())
      BRIM_CHECK(!o.writes || !o.tensor->defined() || p.role(*o.tensor->storage()) != Role::input,
                 CompileError, "[compile] {} writes into an input of the step; clone() it first",
                 launch->name());
    if (const RandomKey* key = launch->option<RandomKey>()) note_draw(*launch, *key);
    p.launches.push_back(std::move(launch));
  }
  Launch& last_launch() override { return *result_.program.launches.back(); }
  size_t count() const { return result_.program.launches.size(); }

  Tensor kept(const Tensor& t) override {
    const Ref<Storage>& storage = t.storage();
    if (!storage->recorded) {
      note_seen(*t.impl());
      return with_storage(t, storage);
    }
    const auto twin = twins_.find(storage.get());
    BRIM_CHECK(
        twin != twins_.end(), CompileError,
        "[compile] the step uses a tensor that an earlier recording of it made; keep tensors "
        "between steps in tensors made before the first one, and write them with copy_()");
    return with_storage(t, twin->second);
  }

  /// Call after the step, with what it returned.
  Recording finish(std::vector<Tensor> results, bool keep_gradients) {
    Program& p = result_.program;
    std::vector<Tensor> outputs;
    for (Tensor& t : results) {
      BRIM_CHECK(t.defined(), CompileError, "[compile] the step returns an undefined tensor");
      outputs.push_back(kept(t));
    }
    results.clear();
    for (LeafGradient& g : gradients_) {
      Tensor now = gradient_of(*g.leaf);
      if (!g.cleared || keep_gradients || (now.defined() && !used(now))) g.after = std::move(now);
    }
    result_.gradients = gradients_;
    for (LeafGradient& g : result_.gradients)
      if (g.cleared) g.before = {};
    restore();
    inputs_.clear();  // their storages end
    recording = nullptr;
    for (const auto& [storage, twin] : twins_) {
      leave_behind(*storage, *twin);
      p.set_role(*twin, Role::kept);
      result_.kept.emplace_back(Ref<Storage>(storage), twin);
    }
    twins_.clear();
    for (Tensor& t : outputs)
      if (p.role(*t.storage()) == Role::temporary) p.set_role(*t.storage(), Role::output);
    p.outputs = std::move(outputs);
    p.eager_peak = peak_;
    p.recorded_launches = p.launches.size();
    p.recorded_bytes = traffic_of(p).bytes;
    for (const Drawn& d : drawn_) p.draws.push_back({d.generator, d.count});
    return std::move(result_);
  }

 private:
  struct Drawn {
    Generator* generator;
    RandomKey first;
    uint64_t count;
    bool holds(const RandomKey& key) const {
      return key.seed == first.seed && key.offset >= first.offset &&
             key.offset - first.offset < count;
    }
  };

  void note_seen(TensorImpl& impl) {
    if (impl.storage->recorded) return;
    const bool requires_grad = impl.autograd && impl.autograd->requires_grad;
    result_.seen.push_back({Ref<TensorImpl>(&impl), impl.storage, requires_grad});
  }

  /// Whether a launch uses the gradient for more than to add to it.
  bool used(const Tensor& gradient) const {
    const auto twin = twins_.find(gradient.storage().get());
    if (twin == twins_.end()) return false;
    for (const auto& launch : result_.program.launches) {
      bool reads = false, writes = false;
      for (const Operand& o : launch->operands())
        if (o.tensor->defined() && o.tensor->storage() == twin->second)
          (o.writes ? writes : reads) = true;
      if (reads && !writes) return true;
    }
    return false;
  }

  void note_draw(Launch& launch, const RandomKey& key) {
    for (const Drawn& d : drawn_)
      if (d.holds(key)) {
        launch.draw = {d.generator, key.offset - d.first.offset};
        return;
      }
  }

  /// Puts back what the step changed on the host.
  void restore() {
    for (const LeafGradient& g : gradients_)
      if (g.leaf->autograd) g.leaf->autograd->grad = g.before;
    gradients_.clear();
    for (const auto& undo : undo_) undo();
    undo_.clear();
    const RecordingPause now;
    for (const Drawn& d : drawn_) d.generator->set_state(d.first);
  }

  /// Whoever still holds a tensor of the step is told, should nobody compute it.
  void leave_behind(Storage& storage, const Storage& twin) const {
    storage.recorded = false;
    if (storage.bytes() == 0) return;
    storage.uncomputed = "empty";
    for (const auto& launch : result_.program.launches)
      for (const Operand& o : launch->operands())
        if (o.writes && o.tensor->defined() && o.tensor->storage().get() == &twin) {
          storage.uncomputed = launch->name();
          return;
        }
  }

  Recording result_;
  std::vector<Tensor> inputs_;
  std::unordered_map<Storage*, Ref<Storage>> twins_;  // the step's storage -> the program's
  int64_t live_ = 0, peak_ = 0;
  std::unordered_map<TensorImpl*, size_t> leaves_;
  std::vector<LeafGradient> gradients_;
  std::vector<std::function<void()>> undo_;
  std::vector<std::function<void()>>* undo_host_;
  std::vector<Drawn> drawn_;
};

}  // namespace

Recording record(const Step& step, std::span<const Tensor> inputs, bool keep_gradients,
                 std::vector<std::function<void()>>* undo, bool for_passes) {
  (void)Generator::global();  // made by its first use, which the step may be
  const autograd::OwnCasts casts;
  Recorder recorder(inputs, undo, for_passes);
  std::vector<Tensor> results = step(recorder.inputs());
  autograd::OwnCasts::drop();  // they end with the step
  return recorder.finish(std::move(results), keep_gradients);
}

size_t recorded_launches() {
  return recording ? static_cast<const Recorder*>(recording)->count() : 0;
}

void give_memory(Storage& storage) {
  Ref<Storage> memory = Storage::allocate(storage.bytes(), storage.device());
  storage.rebind(memory->data());
  storage.uncomputed = nullptr;
  storage.keep_alive(std::move(memory));
}

}  // namespace brim::plan
