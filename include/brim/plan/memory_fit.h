// How a compiled step was fitted into the memory that there is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim {

/// How it is decided what a step moves, and when.
enum class MemoryPolicy : uint8_t {
  shortest,  ///< so that the step is shortest, and only where it does not fit as it is
  in_turn,   ///< the same if each copy is waited for at once
  /// Rules of vDNN (Rhu et al., "vDNN: virtualized deep neural networks for scalable,
  /// memory-efficient neural network design", 2016), to compare with: the inputs of convolutions
  /// are moved, whether the step fits or not; nothing is on the CPU, nor where the host's limit is
  /// too low. The copy of a layer's input runs beside the layer and is waited for at its end; on
  /// the way back each layer fetches that of the next one, at most as far as the next convolution,
  /// and waits for it at its own end. These policies need the pass `offload`.
  vdnn_conv,
  vdnn_all,  ///< the same of the inputs of all layers
  /// vDNN's choice between them: nothing is moved, or the inputs of convolutions, or all, whichever
  /// is the first that fits. Its choice among algorithms of convolutions is not made.
  vdnn_dynamic
};

/// Whether a policy follows the rules of vDNN instead of searching.
constexpr bool is_vdnn(MemoryPolicy policy) { return policy >= MemoryPolicy::vdnn_conv; }

/// What a step does with the tensors that it does not use for a while, where they do not all fit:
/// it keeps them on the device, moves them to the host and back, computes them again, or keeps
/// their signs where nothing else is read of them; with the pass `round_activations`, it keeps or
/// moves them rounded to bf16, too.
struct MemoryFit {
  /// A tensor that is not used for a while.
  struct Tensor {
    std::string made_by;       ///< the launch
    std::string shape, dtype;  ///< of the tensor
    int64_t bytes = 0;         ///< of the tensor
    /// "keep", "offload", "recompute", "keep mask", "keep bf16" or "offload bf16"
    std::string choice;
    std::string why;     ///< why that was chosen
    double seconds = 0;  ///< predicted: of its copies, both ways, or of computing it again
  };
  std::vector<Tensor> tensors;    ///< in the order in which they are made
  int64_t room = 0;               ///< bytes for temporaries
  int64_t before = 0, after = 0;  ///< bytes of the arena
  /// About the least room in which it could run: by the rules of vDNN, the arena that these leave.
  int64_t least = 0;
  int64_t host = 0;                        ///< bytes of pinned memory of the host
  double seconds_before = 0, seconds = 0;  ///< of a step, predicted
  double waiting = 0;                      ///< of `seconds`, for copies
  /// What it would take longer at least if only copies made it fit; computing again can be shorter.
  /// Infinite where nothing can be copied.
  double link_bound = 0;
  /// What it takes longer at least, whatever is chosen. Infinite where nothing fits.
  double step_bound = 0;
  bool fits = false;  ///< whether it now fits
  /// Of a step that does not, but would with the pass `round_activations`: its seconds then. Else
  /// 0.
  double seconds_rounded = 0;
  /// The rules of vDNN move `host` bytes, but the host's limit leaves less: nothing is moved.
  bool host_is_short = false;
};

}  // namespace brim
