// What TensorBoard shows of a run: scalars, histograms, pictures, texts and hyperparameters, by tag
// and step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <brim/core/tensor.h>

namespace brim::deploy {
struct NetworkSummary;
}

namespace brim::train {

/// What a run was given, or came to.
using HyperParameter = std::variant<double, std::string>;

/// Writes an event file into a folder (PyTorch's SummaryWriter):
///
///     brim::train::SummaryWriter writer("runs/first");
///     writer.add_scalar("loss", loss, step);
///     writer.add_histogram("weights/conv1", net.parameters()[0], step);
///
/// `tensorboard --logdir runs` shows it while it grows: events reach the file within a second of
/// the next one, at flush() and at the end. For any thread. Tensors may live on any device; they
/// are read on the host, which waits for them. All functions throw FileError where the file cannot
/// be written.
class SummaryWriter {
 public:
  /// Makes the folder where there is none. `purge_from`, for a run that goes on: of earlier files
  /// of the folder TensorBoard leaves out what they have from this step on.
  explicit SummaryWriter(const std::string& folder, std::optional<int64_t> purge_from = {});
  /// Writes what is left; where that fails, it is lost: call flush() to know.
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  /// A number at a step, drawn as a curve of that tag.
  void add_scalar(const std::string& tag, double value, int64_t step);
  /// How often which values come. Numbers that are not finite are left out. Throws ValueError where
  /// none is left.
  void add_histogram(const std::string& tag, const Tensor& values, int64_t step);
  /// A picture of shape (1 or 3, height, width): u8, or floats of which 0 is black and 1 white.
  /// Throws ValueError for others, FileError where libpng is missing.
  void add_image(const std::string& tag, const Tensor& image, int64_t step);
  /// Text, of which TensorBoard makes Markdown.
  void add_text(const std::string& tag, const std::string& text, int64_t step);
  /// What this run was given; once a run. `metrics`: tags of scalars by which runs are compared.
  void add_hparams(const std::map<std::string, HyperParameter>& given,
                   const std::vector<std::string>& metrics);
  /// The network that TensorBoard draws, as deploy::summarize() found it: modules by their dotted
  /// names, each with the shape of its output. TensorBoard shows one graph of a folder: the newest,
  /// with a warning where there are others.
  void add_graph(const deploy::NetworkSummary& network);
  void flush();  ///< what was added is in the file when it returns

  const std::string& path() const;  ///< of the file

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace brim::train
