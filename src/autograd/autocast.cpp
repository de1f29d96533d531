#include "autograd/autocast.h"

#include <unordered_map>

#include <brim/autograd/autograd.h>

#include "core/check.h"

namespace brim::autograd {

thread_local constinit DType autocast_dtype = DType::f32;

struct KeptCasts {
  struct Entry {
    Ref<TensorImpl> leaf;
    uint32_t version;  // of its storage
    DType dtype;
    bool has_history;
    Tensor cast;
  };
  std::unordered_map<const TensorImpl*, Entry> entries;
};

namespace {

thread_local std::unique_ptr<KeptCasts> kept;
thread_local int scopes = 0;

bool small(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace

Tensor autocast_low(const Tensor& x) {
  const DType dtype = autocast_dtype;
  if (!x.defined() || x.dtype() == dtype || !(x.dtype() == DType::f32 || small(x.dtype())))
    return x;
  if (x.dtype() != DType::f32 || !x.requires_grad() || !x.is_leaf()) return x.to(dtype);
  if (!kept) kept = std::make_unique<KeptCasts>();
  const KeptCasts::Entry now = {
      Ref<TensorImpl>(x.impl()), x.storage()->version(), dtype, grad_enabled(), {}};
  KeptCasts::Entry& entry = kept->entries[x.impl()];
  if (!entry.cast.defined() || entry.version != now.version || entry.dtype != dtype ||
      entry.has_history != now.has_history) {
    entry = now;
    entry.cast = x.to(dtype);
  }
  return entry.cast;
}

Tensor autocast_wide(const Tensor& x) {
  return x.defined() && small(x.dtype()) ? x.to(DType::f32) : x;
}

OwnCasts::OwnCasts() : aside_(std::move(kept)) {}
OwnCasts::~OwnCasts() { kept = std::move(aside_); }
void OwnCasts::drop() { kept.reset(); }

}  // namespace brim::autograd

namespace brim {

Autocast::Autocast(DType dtype) : previous_(autograd::autocast_dtype) {
  BRIM_CHECK(dtype == DType::f32 || autograd::small(dtype), DTypeError,
             "[autocast] {} is no dtype to work in; use f16 or bf16, or f32 to switch it off",
             name(dtype));
  autograd::autocast_dtype = dtype;
  ++autograd::scopes;
}

Autocast::~Autocast() {
  autograd::autocast_dtype = previous_;
  if (--autograd::scopes == 0) autograd::kept.reset();
}

DType Autocast::current() { return autograd::autocast_dtype; }

}  // namespace brim
