// What the layout pass knows about launches: which of their tensors are activations, in which
// memory formats they can be, and how long that takes on this machine.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/cache_file.h"
#include "plan/program.h"

namespace brim::plan {

inline constexpr std::array kFormats{MemoryFormat::nchw, MemoryFormat::nhwc, MemoryFormat::chwn};

const char* name(MemoryFormat format);

/// How the elements of an activation lie in memory.
struct Layout {
  DType dtype;
  MemoryFormat format;
};

/// Operands (by number) that must share one memory format, and the formats the kernel takes.
struct Activations {
  std::vector<size_t> operands;
  std::vector<size_t> converted;  ///< those that may have another: the kernel converts them
  std::vector<MemoryFormat> formats;
  bool elementwise = false;  ///< equally fast in every format that all operands share
};

/// Empty operands: the launch takes its tensors as they were recorded.
Activations activations_of(const Launch& launch);

/// Sets the strides of the launch's activations, converted ones too.
void arrange(Launch& launch, const Activations& activations, MemoryFormat format);
void arrange(Tensor& activation, MemoryFormat format);

/// The launch that copies `from` to `to`, which has another memory format or dtype.
std::unique_ptr<Launch> conversion(const Tensor& from, Tensor& to);

/// Measured times of launches, kept in a file between runs: `$XDG_CACHE_HOME/brim/layout.json`, or
/// below `~/.cache`. Times of other machines, GPUs, threads, versions and precisions (TF32) stand
/// beside them and are not used.
class LayoutCosts {
 public:
  /// For launches on `device`. Reads the file. A damaged one is left out of account with a warning,
  /// and written anew.
  explicit LayoutCosts(Device device = {});
  /// For tests: another file; "" for none.
  explicit LayoutCosts(std::string path, Device device = {});

  /// Seconds of a run, measured in memory of its own if the file does not have it.
  double of(Launch& launch, const Activations& activations, MemoryFormat format);
  /// Seconds of copying a tensor of this shape to another format, another dtype or both.
  double of_conversion(const Shape& shape, Device device, Layout from, Layout to);
  /// Writes the file if something was measured, with what others have added to it meanwhile. No
  /// error: the next run measures again.
  void save() const;

  int measured() const { return measured_; }
  const std::string& path() const { return path_; }

 private:
  using Times = std::map<std::string, double>;  // by launch
  double measure(Launch& launch);

  std::string path_, machine_;
  Measured<double> times_;
  int measured_ = 0;
};

/// For comparisons: makes the pass give every tensor that can have it this format.
extern thread_local std::optional<MemoryFormat> forced_layout;

}  // namespace brim::plan
