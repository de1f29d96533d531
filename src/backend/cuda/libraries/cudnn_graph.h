// Graphs of operations of cuDNN's backend API, the engines that its heuristics propose for them,
// and execution plans of those. What an engine does to numbers is in its numerical notes: whoever
// asks says which are allowed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <brim/core/dtype.h>
#include <brim/core/shape.h>

#include "backend/cuda/libraries/cudnn_library.h"

namespace brim::cuda::dnn {

struct DestroyBackend {
  using pointer = cudnnBackendDescriptor_t;
  void operator()(cudnnBackendDescriptor_t d) const { (void)library().destroy_backend(d); }
};
using BackendDesc = std::unique_ptr<void, DestroyBackend>;

/// The type that elements of `dtype` are added and multiplied in.
inline cudnnDataType_t wide_type(DType dtype) {
  return dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/// A descriptor whose attributes are set.
class DescriptorBuilder {
 public:
  explicit DescriptorBuilder(cudnnBackendDescriptorType_t type);
  template <class T>
  DescriptorBuilder& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         std::span<const T> values) {
    check(library().set_backend(made_.get(), name, type, static_cast<int64_t>(values.size()),
                                values.data()),
          "cudnnBackendSetAttribute");
    return *this;
  }
  template <class T>
  DescriptorBuilder& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         const T& value) {
    return set(name, type, std::span<const T>(&value, 1));
  }
  DescriptorBuilder& set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value);
  }
  /// Nothing where cuDNN does not support what was described; so it may call what it cannot do
  /// wrong, as we describe no nonsense.
  std::optional<BackendDesc> finish();
  BackendDesc take() { return std::move(made_); }  // for cuDNN to fill

 private:
  BackendDesc made_;
};

/// A graph and what it is made of, which must live as long; the graph is the last.
using Graph = std::vector<BackendDesc>;

/// Builds a graph, operation by operation. Where cuDNN does not support a part, that and all that
/// follows is null, and so is the graph.
class GraphBuilder {
 public:
  using Desc = cudnnBackendDescriptor_t;
  enum class Place : uint8_t {
    memory,
    inner,  // of the graph: nothing of it is written
    value   // of one element, on the host
  };
  /// For tensors of `dtype` in one memory format, nhwc or nchw.
  GraphBuilder(cudnnHandle_t handle, DType dtype, bool nhwc)
      : handle_(handle), dtype_(dtype), nhwc_(nhwc) {}

  /// Of (n, c, h, w); `id`: its number in the graph.
  Desc tensor(int64_t id, const Shape& shape, cudnnDataType_t type, Place place = Place::memory);
  /// What is no operation.
  Desc keep(DescriptorBuilder& maker);
  void add(DescriptorBuilder& operation);
  /// y = mode(x, b), b null for functions of one number.
  void add(cudnnPointwiseMode_t mode, Desc x, Desc b, Desc y);
  /// Whether all parts are supported so far; if not, nothing more may be made of them.
  bool is_possible() const { return is_possible_; }
  std::shared_ptr<const Graph> finish();

 private:
  cudnnHandle_t handle_;
  DType dtype_;
  bool nhwc_, is_possible_ = true;
  std::vector<Desc> operations_;
  Graph parts_;
};

/// One engine, with its knobs, for a graph.
class ExecutionPlan {
 public:
  ExecutionPlan(std::shared_ptr<const Graph> graph, BackendDesc config, std::string name)
      : graph_(std::move(graph)), config_(std::move(config)), name_(std::move(name)) {}

  /// "plan bias 12 2=16": what the graph has, the engine's number, its knobs. The same for a
  /// version of the library.
  const std::string& name() const { return name_; }
  /// Makes the execution plan, which may compile code, unless it is made. False where cuDNN does
  /// not support it after all, or it needs more than kMaxWorkspace bytes. Queues nothing.
  bool make(cudnnHandle_t handle);
  size_t workspace() const { return workspace_; }

  /// The memory of the graph's tensor `id`, or the host's of a value.
  struct Binding {
    int64_t id;
    const void* data;
  };
  /// After make(): queues it on the handle's stream. False where cuDNN does not support it.
  bool queue(cudnnHandle_t handle, std::span<const Binding> tensors, void* scratch) const;

 private:
  std::shared_ptr<const Graph> graph_;
  BackendDesc config_, plan_;
  std::string name_;
  bool tried_ = false;
  size_t workspace_ = 0;
};

/// Of what cuDNN works in, so many bytes at most.
inline constexpr size_t kMaxWorkspace = size_t{512} << 20;

/// Appends plans of the engines all of whose notes are allowed, those that the heuristics think
/// best in front; none for a graph that is null. `name`: what theirs begin with.
void propose(const std::shared_ptr<const Graph>& graph, const std::string& name,
             const std::function<bool(cudnnBackendNumericalNote_t)>& is_allowed,
             std::vector<ExecutionPlan>& plans);

/// What `ask` finds; nothing where the library fails when it is asked, with one warning in the
/// process for each `what` ("convolutions"). Throws DeviceError for a lost GPU.
template <class Ask>
auto plans_or_none(const char* what, const Ask& ask) -> decltype(ask()) {
  try {
    return ask();
  } catch (const DeviceError& error) {
    raise_if_lost("asking for execution plans");
    (void)cudaGetLastError();
    static std::once_flag warned;  // of this kind of `ask`
    std::call_once(warned, [&] {
      warn(fmt::format("{}: {} do without cuDNN's execution plans where it fails so", error.what(),
                       what));
    });
    return {};
  }
}

}  // namespace brim::cuda::dnn
