#include "backend/cuda/graph/graph_parameters.h"

namespace brim::cuda {
namespace {

thread_local GraphParameterScope* scope = nullptr;

}  // namespace

GraphParameterScope::GraphParameterScope(const RepeatedWork& work, uint64_t* block)
    : work_(work), block_(block), read_(work.parameters.size(), false) {
  for (const RepeatedWork::Parameter& n : work.parameters) words_ += n.words;
  scope = this;
}
GraphParameterScope::~GraphParameterScope() { scope = nullptr; }

const char* GraphParameterScope::unread() const {
  for (size_t i = 0; i < read_.size(); ++i)
    if (!read_[i]) return work_.parameters[i].op;
  return nullptr;
}

const void* GraphParameterScope::find(const void* argument, size_t bytes) {
  size_t at = step_ * words_;
  for (size_t i = 0; i < work_.parameters.size(); ++i) {
    const RepeatedWork::Parameter& n = work_.parameters[i];
    if (n.argument == argument && n.words * sizeof(uint64_t) >= bytes) {
      read_[i] = true;
      return block_ + at;
    }
    at += n.words;
  }
  return nullptr;
}

const void* place_of(const void* argument, size_t bytes) {
  return scope ? scope->find(argument, bytes) : nullptr;
}

}  // namespace brim::cuda
