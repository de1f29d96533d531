// How fused kernels come into plans. Each declares, beside itself, the launches that it stands for,
// when that pays, and the launch that takes their place; src/plan/rewriter.h finds them and decides
// whether they may be replaced. A pattern is a text, a launch a line:
//
//   linear(x, weight, bias, y: z)        operand `y` of the launch is called z in the pattern,
//   relu(x: z, y)                        operand `x` of relu is the same tensor
//
// Operands have the names of their kernel's declaration; those not named may be anything. A name
// that occurs twice is the same elements, unchanged in between. In front of a line
//   ?   the launch may be missing: what it alone names is undefined then;
//   ~   it may be missing, and the first tensor it names then is the last as well;
//   @   it is looked at, and goes only if nobody else looks at it.
// `label = kernel(...)` names the launch where its kernel does not; `a|b(...)` is either; `sgd[]`
// one element of the lists that a launch works on. Behind a name, `.T` is the transposed matrix,
// `?` the operand may be left out; `-` must be left out. `---` divides a pattern into parts which
// one launch each takes the place of.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/launch.h"

namespace brim::backend {

/// What was found for a pattern.
class Match {
 public:
  /// The tensor of that name; undefined where the operand is, or the launch is missing. Throws
  /// Error for names, and find() for labels, that no pattern of the rewrite has.
  virtual const Tensor& operator[](std::string_view name) const = 0;
  /// The same as a handle of one's own, for what a launch writes.
  Tensor target(std::string_view name) const { return (*this)[name]; }
  /// Those of a name that `kernel[]` has, where an element has several.
  virtual std::span<const Tensor> list(std::string_view name) const = 0;
  /// The launch of that label, or kernel; null where it is missing.
  virtual const Launch* find(std::string_view label) const = 0;
  /// Whether anybody reads or writes the tensor but the launches that go, or sees it afterwards.
  virtual bool seen_by_others(std::string_view name) const = 0;
  /// Whether nobody has written the tensor between the launch `label` and the end of what is found.
  virtual bool unchanged_since(std::string_view label, std::string_view name) const = 0;
  /// A new temporary, dense in `format`.
  virtual Tensor make(const Shape& shape, DType dtype,
                      MemoryFormat format = MemoryFormat::nchw) = 0;
  virtual Device device() const = 0;
  /// Of the launches that go, or of the first one that is required.
  virtual DType dtype() const = 0;

  /// The options of the launch `label`. Throws Error if it is missing, or has none of this type.
  template <class T>
  const T& option(std::string_view label) const {
    const Launch* launch = find(label);
    const T* option = launch ? launch->template option<T>() : nullptr;
    if (!option) missing_option(label);
    return *option;
  }

 protected:
  ~Match() = default;

 private:
  [[noreturn]] static void missing_option(std::string_view label);
};

using Launches = std::vector<std::unique_ptr<Launch>>;

/// A fused kernel, or two that belong together, in place of what it was fused from.
struct Rewrite {
  std::string name;  ///< of the pass that does it
  std::string what;  ///< one line for people
  /// As Pass::ulp (src/plan/pass.h): 0 for the same bits.
  int ulp = 0;
  /// The first that is found is taken.
  std::vector<std::string> patterns;
  /// Whether a new launch may write a tensor that it reads under other names, where these are the
  /// same elements.
  bool in_place = false;
  /// Whether the launches may be of several dtypes; `pays` looks at them then. Else they are of
  /// one.
  bool mixed_dtypes = false;
  /// The device needs all of these for the dtype of what is found. Rewrites whose patterns have one
  /// come behind this one.
  std::vector<std::string> kernels;
  /// Whether the kernels can do it, and it pays, at these sizes.
  std::function<bool(const Match&)> pays;
  /// A launch for each part of the pattern. Empty: it is not possible after all.
  std::function<Launches(Match&)> build;
};

/// For static initialisation. Throws Error if there is one of that name.
bool register_rewrite(Rewrite rewrite);
/// In the order of their names.
std::vector<const Rewrite*> rewrites();

/// The one launch that a build function returns.
inline Launches one(std::unique_ptr<Launch> launch) {
  Launches launches;
  launches.push_back(std::move(launch));
  return launches;
}

}  // namespace brim::backend
