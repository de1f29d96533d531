// Steps of a program, and what ops are: how a step is checked before its first run, which memory it
// takes, and how it runs. Nothing in a file is trusted: after check() run() reads and writes no
// memory but that of the operands, whatever the file holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rt/failure.h"
#include "rt/format.h"
#include "rt/isa.h"
#include "rt/threads.h"

namespace brim::rt {

/// A tensor of a program: row-major.
struct Operand {
  DType dtype = DType::f32;
  int rank = 0;
  int64_t dims[kMaxRank] = {};
  char* data = nullptr;
  int port = -1;  ///< of inputs, then outputs, where it is one or a view of one

  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  size_t bytes() const { return static_cast<size_t>(count()) * size_of(dtype); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  bool is_f32(int wanted_rank) const { return dtype == DType::f32 && rank == wanted_rank; }
  bool has_sizes_of(const Operand& other) const {
    if (rank != other.rank) return false;
    for (int i = 0; i < rank; ++i)
      if (dims[i] != other.dims[i]) return false;
    return true;
  }
};

struct Op;

struct Step {
  const Op* op;
  const char* name;  ///< the module of the network it is of, and what it computes
  const Operand* values;
  const uint32_t* ids;
  int inputs, outputs;
  const int64_t* words;
  int word_count;

  const Operand& in(int i) const { return values[ids[i]]; }
  const Operand& out(int i) const { return values[ids[inputs + i]]; }
  /// Null where the step has no such input.
  template <class T>
  const T* in_or_null(int i) const {
    return i < inputs ? in(i).as<T>() : nullptr;
  }
  template <class T>
  T attributes() const {
    T a;
    std::memcpy(static_cast<void*>(&a), words, sizeof(T));
    return a;
  }
  template <class T>
  bool has_attributes() const {
    return static_cast<size_t>(word_count) * sizeof(int64_t) == sizeof(T);
  }
};

struct Run {
  Isa isa;
  const Threads& threads;
  void* scratch;
};

struct Op {
  OpCode code;
  const char* name;
  /// BRIM_RT_OK, or why the step is damaged.
  int (*check)(const Step& step, const Failure& fail);
  /// Bytes; after check(). Null: none.
  size_t (*scratch)(const Step& step, Isa isa, int threads);
  int (*run)(const Step& step, const Run& run, const Failure& fail);
};

/// Those of this runtime (ops.cpp); null behind the last.
extern const Op* const kOps[];
/// Null where this runtime has none.
const Op* find_op(uint32_t code);

extern const Op kConvolutionOp, kWinogradOp, kDepthwiseOp, kMaxPoolOp, kAveragePoolOp, kUnaryOp,
    kBinaryOp, kSoftmaxOp, kLayerNormOp, kCopyOp, kMatmulOp, kGatherOp, kQuantizeOp,
    kInt8ConvolutionOp, kInt8WinogradOp, kPictureOp, kTopOp, kArgmaxOp, kQuantizeColoursOp,
    kPlaneConvolutionOp, kResizeOp;

/// Whether so many bytes of scratch memory are in proportion to what a step reads and makes: a file
/// could ask for any amount otherwise.
inline bool is_in_proportion(const Step& step, uint64_t scratch) {
  constexpr uint64_t kSmall = uint64_t{1} << 26, kTimes = 16;
  uint64_t operands = 0;
  for (int i = 0; i < step.inputs + step.outputs; ++i) operands += step.values[step.ids[i]].bytes();
  return scratch <= kSmall || scratch / kTimes <= operands;
}

/// How a check ends where the operands or attributes do not fit each other.
inline int does_not_fit(const Step& step, const Failure& fail) {
  return fail(BRIM_RT_DAMAGED, "the engine is damaged: the operands of a step do not fit (%s)",
              step.name);
}

}  // namespace brim::rt
