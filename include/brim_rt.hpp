// brim_rt.h for C++17: handles that close themselves, and exceptions. Header only.
//
//   brim_rt::Model model("model.brim");
//   brim_rt::Session session(model);
//   session.run({pixels.data()}, {scores.data()});
//   std::puts(model.label(best).c_str());
#ifndef BRIM_RT_HPP
#define BRIM_RT_HPP

#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "brim_rt.h"

namespace brim_rt {

/// What the library reports.
class Error : public std::runtime_error {
 public:
  Error(brim_rt_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  brim_rt_code code() const { return code_; }

 private:
  brim_rt_code code_;
};

namespace detail {

/// Calls a function whose last argument is a brim_rt_error*. Throws Error.
template <class Function, class... Arguments>
void call(Function function, Arguments... arguments) {
  brim_rt_error error;
  if (function(arguments..., &error)) throw Error(error.code, error.message);
}

/// The strings that `function` gives for 0, 1, ... until it gives NULL.
template <class Handle>
std::vector<std::string> all(const char* (*function)(const Handle*, int), const Handle* handle) {
  std::vector<std::string> values;
  while (const char* const value = function(handle, static_cast<int>(values.size())))
    values.emplace_back(value);
  return values;
}

/// Owns a handle; one that was moved from holds NULL.
template <class Handle, void (*Close)(Handle*)>
class Owner {
 public:
  Owner() = default;
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owner() {
    if (handle_) Close(handle_);
  }
  Handle* get() const { return handle_; }
  Handle** put() { return &handle_; }

 private:
  Handle* handle_ = nullptr;
};

}  // namespace detail

/// An engine. Several threads may use it at once. It must outlive its sessions.
class Model {
 public:
  /// Throws Error.
  explicit Model(const std::string& path, const brim_rt_allocator* allocator = nullptr) {
    detail::call(brim_rt_open, path.c_str(), allocator, model_.put());
  }
  /// Of a file in memory, which must stay there, aligned to 64 bytes. Throws Error.
  Model(const void* data, size_t bytes, const brim_rt_allocator* allocator = nullptr) {
    detail::call(brim_rt_open_memory, data, bytes, allocator, model_.put());
  }

  /// Sizes of batches that it was made for.
  std::vector<int64_t> batches() const {
    std::vector<int64_t> sizes;
    while (const int64_t size = brim_rt_batch(get(), static_cast<int>(sizes.size())))
      sizes.push_back(size);
    return sizes;
  }
  /// Names of classes.
  std::vector<std::string> labels() const { return detail::all(brim_rt_label, get()); }
  /// Of one class; its number where the file has no name.
  std::string label(int index) const {
    const char* const name = brim_rt_label(get(), index);
    return name ? name : std::to_string(index);
  }
  /// What the file says of itself, as "model", "mean"; empty where it says nothing.
  std::optional<std::string> metadata(const std::string& key) const {
    const char* const value = brim_rt_metadata(get(), key.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  }
  brim_rt_model* get() const { return model_.get(); }

 private:
  detail::Owner<brim_rt_model, brim_rt_close> model_;
};

/// Runs a model; by one thread at a time, but for cancel().
class Session {
 public:
  /// Takes all memory that runs need. Throws Error.
  explicit Session(const Model& model, const brim_rt_session_options& options = {}) {
    detail::call(brim_rt_session_create, model.get(), &options, session_.put());
    for (int i = 0; const brim_rt_port* const port = brim_rt_input(get(), i); ++i)
      inputs_.push_back(*port);
    for (int i = 0; const brim_rt_port* const port = brim_rt_output(get(), i); ++i)
      outputs_.push_back(*port);
  }

  /// inputs[i]: the elements of input i; outputs[i]: room for those of output i. Allocates nothing.
  /// Throws Error, also where there are more or fewer than ports.
  void run(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs) {
    if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size())
      throw Error(BRIM_RT_INVALID_ARGUMENT,
                  "the model has " + std::to_string(inputs_.size()) + " inputs and " +
                      std::to_string(outputs_.size()) + " outputs, and was given " +
                      std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()));
    run(inputs.begin(), outputs.begin());
  }
  /// The same of arrays as long as inputs() and outputs().
  void run(const void* const* inputs, void* const* outputs) {
    detail::call(brim_rt_run, get(), inputs, outputs);
  }
  /// From any thread: the run that is under way, or else the next one, throws BRIM_RT_CANCELLED.
  void cancel() { brim_rt_cancel(get()); }
  /// Runs the samples in the file. The largest difference, as a share of the largest output. Throws
  /// Error, BRIM_RT_NOT_EQUAL where it is too large.
  double verify() {
    double worst = 0;
    detail::call(brim_rt_verify, get(), &worst);
    return worst;
  }

  const std::vector<brim_rt_port>& inputs() const { return inputs_; }
  const std::vector<brim_rt_port>& outputs() const { return outputs_; }
  size_t memory() const { return brim_rt_memory(get()); }  ///< bytes that it has allocated
  std::string isa() const { return brim_rt_isa(get()); }   ///< the instruction set it runs on
  /// What a run does, step by step.
  std::vector<std::string> steps() const { return detail::all(brim_rt_step, get()); }
  brim_rt_session* get() const { return session_.get(); }

 private:
  detail::Owner<brim_rt_session, brim_rt_session_close> session_;
  std::vector<brim_rt_port> inputs_, outputs_;
};

}  // namespace brim_rt

#endif
