// Engines: a trained network as one file that the small runtime libbrim_rt runs (brim_rt.h),
// without brim. Batch norm is folded into weights, layers and activations are joined, weights lie
// as the kernels read them, memory is planned, and which kernel computes a layer was measured. What
// an engine can hold: docs/DEPLOY.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/data/transform.h>
#include <brim/nn/module.h>

namespace brim::deploy {

/// Pictures that an engine takes as a camera or decoder gives them and prepares itself, bit for bit
/// as data::to_tensor() does: u8 (N, height, width, C), rows from the top, channels side by side.
struct EnginePictures {
  ///@{
  /// Of the pictures that come: 1 to 32,768 pixels.
  int64_t height = 0;
  int64_t width = 0;
  ///@}
  /// Nothing, a Resize, a CenterCrop, or both in this order; then to float. A crop must lie within
  /// the picture. What comes out has the sizes of the network's input.
  data::Transform transform = {};
  bool bgr = false;  ///< pixels are blue, green, red, and the network reads red, green, blue
};

/// What an engine puts out instead of output 0 of its network, where that is scores of C classes:
/// (N, C), (N, C, H, W) or (N, .., C).
enum class EngineOutput : uint8_t {
  scores,   ///< nothing else
  softmax,  ///< their probabilities, in the same shape
  top,      ///< (N, .., K), of masks (N, H, W, K): the largest probabilities, in order, and as the
            ///< next output which classes these are, i32
  classes   ///< the likeliest class, i32: (N), of masks (N, H, W)
};

/// Of save_engine().
struct EngineOptions {
  /// Samples of a batch; a file may hold several, which share their weights.
  std::vector<int64_t> batches = {1};
  std::vector<std::string> inputs = {"input"};    ///< names, in order
  std::vector<std::string> outputs = {"output"};  ///< names, in order
  /// Of output 0: its channels if it has 4 axes, else its last.
  std::vector<std::string> labels = {};
  std::map<std::string, std::string> metadata = {};  ///< what a program needs to know
  /// What comes instead of input 0, images in f32 of 1 to 4 channels; its samples for the proof, of
  /// this size, are in the file. None: input 0 is the network's.
  std::optional<EnginePictures> pictures = {};
  EngineOutput output = EngineOutput::scores;  ///< what is put out instead of output 0
  int64_t top = 5;                             ///< K of EngineOutput::top: 1 to 1000, at most C
  /// Samples with brim's outputs, each computed by itself, which brim_rt_verify() compares.
  int64_t proof_samples = 2;
  /// Of their outputs, as a share of the largest one. 0: 1e-4, or 0.02 where layers are in 8-bit
  /// integers: a number in f32 that is rounded otherwise in its last bit may become another
  /// integer; of probabilities, what they are off by where scores are off by that. Classes must be
  /// equal where scores are further apart.
  double tolerance = 0;
  int threads = 0;  ///< that layers are measured with; 0: one for each core
  /// Called now and then with what is done and how much of it, from 0 to 1: samples that the
  /// network computes, layers that are measured, batches that are verified.
  std::function<void(const std::string& what, double fraction)> progress = {};
};

/// What a file holds.
struct EngineSummary {
  int64_t bytes = 0;                         ///< of the file
  int64_t weight_bytes = 0;                  ///< of its weights
  int64_t session_bytes = 0;                 ///< that a session takes at most, on these threads
  int64_t steps = 0;                         ///< of a run
  std::map<std::string, int64_t> operators;  ///< how many steps of each, in the first program
  std::vector<std::string> kernels;          ///< what a runtime for this file alone needs
  double difference = 0;                     ///< from brim's outputs, as tolerance counts it
};

/// What a network of one or several inputs computes: results of these inputs.
using EngineForward = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

/// Writes what `network` computes in eval mode, in f32, as an engine, atomically, after the engine
/// was run and found equal. `examples`: shapes and dtypes of inputs, whose axis 0 is the batch.
/// Throws NotImplemented, with all operators that engines cannot hold and the modules they are in;
/// CompileError where the forward pass reads values on the host; ValueError for options out of
/// range, or where the engine's outputs are not those of the network; OutOfMemory, before anything
/// is computed where an operator cannot fit; FileError. Then nothing is written.
EngineSummary save_engine(const std::string& path, nn::Module& network,
                          const EngineForward& forward, const std::vector<Tensor>& examples,
                          const EngineOptions& options = {});

/// The same of a network of one input and one output.
EngineSummary save_engine(const std::string& path, nn::Module& network, const Tensor& example,
                          const EngineOptions& options = {});

/// The operators of ONNX's opset that engines hold, in the order of their names, with those of
/// engines alone.
std::vector<std::string> engine_operators();

/// What a runtime of one's own is for.
struct RuntimeOptions {
  /// "native", "x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a" or "armv8.2-a": the CPU that all of
  /// it is compiled for.
  std::string target = "native";
  std::vector<std::string> kernels = {};  ///< EngineSummary::kernels
};

/// Copies the sources of the runtime that these kernels need into a new folder, with a
/// CMakeLists.txt that makes libbrim_rt.so and libbrim_rt.a of them. `sources`: the root of brim's
/// sources, or where `cmake --install` put those of the runtime. They need a C++20 compiler and
/// Highway's headers. Throws ValueError for a target or kernel that is unknown; FileError where a
/// file is missing, or the folder is there and not empty.
void save_runtime(const std::string& sources, const std::string& folder,
                  const RuntimeOptions& options);

}  // namespace brim::deploy
