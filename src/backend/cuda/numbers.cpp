#include "backend/cuda/numbers.h"

namespace brim::cuda {
namespace {

thread_local NumberScope* scope = nullptr;

}  // namespace

NumberScope::NumberScope(const RepeatedWork& work, uint64_t* block)
    : work_(work), block_(block), read_(work.numbers.size(), false) {
  for (const RepeatedWork::Number& n : work.numbers) words_ += n.words;
  scope = this;
}
NumberScope::~NumberScope() { scope = nullptr; }

const char* NumberScope::unread() const {
  for (size_t i = 0; i < read_.size(); ++i)
    if (!read_[i]) return work_.numbers[i].op;
  return nullptr;
}

const void* NumberScope::find(const void* argument, size_t bytes) {
  size_t at = step_ * words_;
  for (size_t i = 0; i < work_.numbers.size(); ++i) {
    const RepeatedWork::Number& n = work_.numbers[i];
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
