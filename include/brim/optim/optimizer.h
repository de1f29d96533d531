// Optimizer: changes parameters along their gradients. Parameters are in groups, each with options
// of its own. State (momentum, ...) lives on the parameter's device and is made at its first step.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <brim/core/state_dict.h>
#include <brim/core/tensor.h>

namespace brim::optim {

/// What an optimizer works on: `net.named_parameters()` or a list of tensors, whose names are then
/// their numbers. Names appear in state dicts and messages.
struct ParameterList {
  ParameterList(NamedTensors named) : items(std::move(named)) {}  ///< with names
  ///@{
  /// Called by their numbers: "0", "1", ...
  ParameterList(const std::vector<Tensor>& tensors);
  ParameterList(std::initializer_list<Tensor> tensors)
      : ParameterList(std::vector<Tensor>(tensors)) {}
  ///@}
  /// With names.
  ParameterList(std::initializer_list<std::pair<std::string, Tensor>> named) : items(named) {}
  NamedTensors items;  ///< names and parameters, in order
};

/// Parameters with options that differ from those of other groups.
template <class O>
struct Group {
  ParameterList params;  ///< those of the group
  O options = {};        ///< theirs
};

/// What all optimizers share. One of one's own overrides step(), fields() and, where it keeps
/// state, state_names():
///
///   class Momentum : public optim::Optimizer {
///    public:
///     Momentum(const optim::ParameterList& params, double lr) : Optimizer("Momentum"), lr_(lr) {
///       append_group(params);
///     }
///     void step() override {
///       const NoGrad guard;
///       for (Parameter& p : group(0)) {
///         if (!p.tensor.grad().defined()) continue;
///         if (p.state.empty()) p.state.push_back(zeros_like(p.tensor));
///         p.state[0].mul_(0.9).add_(p.tensor.grad());
///         p.tensor.add_(p.state[0], -lr_);
///         ++p.steps;  // state_dict() saves it
///       }
///     }
///
///    protected:
///     std::vector<Field> fields(size_t) override { return {{"lr", &lr_}}; }
///     std::vector<const char*> state_names(size_t) const override { return {"momentum"}; }
///
///    private:
///     double lr_;
///   };
///
/// Numbers of the host (options, `steps`) are constants of a compiled step: a change of options has
/// a new plan made, and steps that compute with `p.steps` cannot be compiled.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One step. Parameters without a gradient are left as they are. Queues one kernel per group,
  /// dtype and device; never waits.
  virtual void step();
  /// One step where `found_inf`, an f32 scalar on the parameters' device, is 0; elsewhere nothing
  /// changes, step counts included. Reads nothing on the host; see GradScaler.
  virtual void step_if_finite(const Tensor& found_inf);
  /// Forgets the gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);

  size_t num_groups() const { return groups_.size(); }  ///< how many there are
  std::vector<Tensor> parameters(size_t group) const;   ///< of one group
  std::vector<Tensor> parameters() const;               ///< of all groups

  double lr(size_t group = 0) const { return option("lr", group); }      ///< of a group
  void set_lr(double lr);                                                ///< of all groups
  void set_lr(double lr, size_t group) { set_option("lr", lr, group); }  ///< of one group
  /// An option by name: "lr", "momentum", "weight_decay", ... Throws ValueError naming the nearest.
  double option(const std::string& name, size_t group = 0) const;
  /// Sets an option; a bool by 0 or 1. Throws ValueError naming the nearest, and for a value out of
  /// range.
  void set_option(const std::string& name, double value, size_t group = 0);
  bool has_option(const std::string& name) const;  ///< whether there is an option of that name

  /// Options, step counts and state: "group.0.lr", "state.conv1.weight.momentum_buffer". Tensors
  /// share memory with the optimizer; numbers are f64 and i64 scalars, so nothing is rounded.
  StateDict state_dict() const;
  /// Goes on where state_dict() was taken. Everything is checked first: on error nothing has
  /// changed. Throws ValueError naming what is missing, unexpected or of another shape or dtype.
  void load_state_dict(const StateDict& state);

  const char* kind() const { return kind_; }  ///< "SGD"

 protected:
  explicit Optimizer(const char* kind) : kind_(kind) {}  ///< `kind`: a literal, for messages

  /// A parameter and what the optimizer keeps of it.
  struct Parameter {
    std::string name;           ///< in state dicts and messages
    Tensor tensor;              ///< what is trained
    int64_t steps = 0;          ///< how many it had
    int64_t recorded = 0;       ///< steps noted by the recording that is going on
    std::vector<Tensor> state;  ///< in the order of state_names()
    Tensor master;              ///< in f32, of a 16-bit tensor where master_weights() asks for it
    Tensor skipped;             ///< how many of `steps` were none; shared, undefined for none
  };
  /// An option of a group.
  struct Field {
    const char* name;                    ///< as option() takes it
    std::variant<double*, bool*> value;  ///< where it is
    bool is_new = false;                 ///< kept where a state dict lacks it
  };
  /// How one step changes a parameter: the kernel and what it is made with (internal).
  struct Rule;

  /// Appends a group. Throws ValueError for no, undefined, doubled or unsuitable parameters.
  void append_group(const ParameterList& params);
  /// Parameters for a step() of one's own, which counts `steps` and keeps `state`. Inside a
  /// compiled step the plan then holds for these options and states; others have a new one made.
  std::vector<Parameter>& group(size_t index);

  /// The options of a group, for state dicts, schedules and option().
  virtual std::vector<Field> fields(size_t group) = 0;
  /// Throws ValueError for options out of range.
  virtual void check_options(size_t /*group*/) const {}
  /// Names of the state tensors of a group's parameters; they begin as zeros.
  virtual std::vector<const char*> state_names(size_t /*group*/) const { return {}; }
  /// Whether the group's f16 and bf16 parameters have masters in f32; not where step() is one's
  /// own.
  virtual bool master_weights(size_t /*group*/) const { return false; }
  /// The rule of a parameter's `step`-th step (1, 2, ...), for those who do not override step().
  virtual Rule rule(size_t group, int64_t step) const;

 private:
  struct Bucket {  // parameters that one launch updates
    Device device;
    DType dtype;
    bool masters;
    int64_t step;
    Tensor skipped;
    std::vector<Tensor> params, grads, states;
    std::vector<size_t> members;  // their places in the group

    void clear() { params.clear(), grads.clear(), states.clear(), members.clear(); }
  };

  std::vector<Field> all_fields(size_t group) const;
  Field find_field(const std::string& name, size_t group) const;
  bool has_master(size_t group, const Parameter& p) const;
  DType state_dtype(size_t group, const Parameter& p) const;
  /// Zeros for the state tensors that a parameter of the group lacks.
  void make_states(size_t group, Parameter& p, size_t count) const;
  /// Tells the recording that a step() of one's own reads and counts.
  void note_use();
  /// Tells the launch just recorded how to go on from step to step.
  void repeat_in_plan(size_t group, const Bucket& bucket);
  Bucket& bucket(size_t group, const Parameter& p, size_t& used);
  /// A step of all groups; `found_inf` may be undefined.
  void update(const Tensor& found_inf);
  void launch(Bucket& bucket, size_t group, Tensor found_inf);

  const char* kind_;
  std::vector<std::vector<Parameter>> groups_;
  std::vector<Bucket> buckets_;                            // kept between steps for their memory
  bool noted_ = false;                                     // by the recording that is going on
  std::shared_ptr<char> life_ = std::make_shared<char>();  // plans see by it that this one ended
};

}  // namespace brim::optim
