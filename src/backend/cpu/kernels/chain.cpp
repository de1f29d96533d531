// Chains on the CPU: each thread takes runs of elements that fit in the fastest caches, of whole
// rows where a link works on rows, and applies all links to one run before it goes on to the next.
#include "backend/fused/chain.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/runtime/scratch.h"

namespace brim::cpu {
namespace {

using backend::Chain, backend::ChainIndex, backend::ChainLink, backend::LinkSlot, backend::RowPart;

constexpr int64_t kRunBytes = 4096;  // of a register
constexpr int64_t kRowGrain = 8192;  // elements per thread at least, where exponentials are taken

/// A register as one thread sees it.
class Register {
 public:
  /// Of memory. `buffer`: a run's place, for numbers that are repeated.
  void bind(const Tensor& t, const ChainIndex& index, bool whole, char* buffer) {
    *this = Register();
    base_ = static_cast<char*>(t.raw());
    bytes_ = static_cast<int64_t>(size_of(t.dtype()));
    index_ = index;
    kind_ = whole ? Kind::whole : Kind::repeated;
    buffer_ = buffer;
    dtype_ = t.dtype();
  }
  /// Inside the chain.
  void bind(DType dtype, char* buffer) {
    *this = Register();
    bytes_ = static_cast<int64_t>(size_of(dtype));
    buffer_ = buffer;
    dtype_ = dtype;
  }
  DType dtype() const { return dtype_; }

  /// The numbers of elements at ... at + count - 1, one behind the other.
  char* run(int64_t at, int64_t count) {
    if (kind_ == Kind::inside) return buffer_;
    if (kind_ == Kind::whole) return base_ + at * bytes_;
    const int64_t first = at / index_.repeat % index_.period;
    if (index_.repeat == 1 && first + count <= index_.period) return base_ + first * bytes_;
    fill(at, count);
    return buffer_;
  }
  /// What the row that begins at element `at` has of it; `within` elements into the run.
  char* row(RowPart part, int64_t at, int64_t within) const {
    if (part == RowPart::columns) return base_;
    if (part == RowPart::number) return base_ + at / index_.repeat % index_.period * bytes_;
    return kind_ == Kind::inside ? buffer_ + within * bytes_ : base_ + at * bytes_;
  }

 private:
  enum class Kind : uint8_t { inside, whole, repeated };

  void fill(int64_t at, int64_t count) {
    const int64_t phase = at % (index_.repeat * index_.period);
    // A run within one number's repetitions, as those before it.
    const bool one = phase % index_.repeat + count <= index_.repeat;
    const int64_t key = one ? phase / index_.repeat : phase;
    if (filled_ >= count && one == filled_with_one_ && key == filled_key_) return;
    for (int64_t i = 0; i < count;) {
      const int64_t from = (at + i) / index_.repeat % index_.period;
      const int64_t here = index_.repeat == 1
                               ? std::min(count - i, index_.period - from)
                               : std::min(count - i, index_.repeat - (at + i) % index_.repeat);
      char *to = buffer_ + i * bytes_, *source = base_ + from * bytes_;
      if (index_.repeat == 1)
        std::memcpy(to, source, static_cast<size_t>(here * bytes_));
      else
        repeat(source, to, here);
      i += here;
    }
    filled_ = count;
    filled_with_one_ = one;
    filled_key_ = key;
  }
  void repeat(const char* from, char* to, int64_t n) const {
    if (bytes_ == sizeof(float)) {
      float value;
      std::memcpy(&value, from, sizeof(value));
      std::fill_n(reinterpret_cast<float*>(to), n, value);
    } else {
      for (int64_t i = 0; i < n; ++i)
        std::memcpy(to + i * bytes_, from, static_cast<size_t>(bytes_));
    }
  }

  char* base_ = nullptr;
  char* buffer_ = nullptr;
  int64_t bytes_ = 0;
  ChainIndex index_;
  Kind kind_ = Kind::inside;
  DType dtype_ = DType::f32;
  int64_t filled_ = 0, filled_key_ = 0;  // how much of the buffer, and with what
  bool filled_with_one_ = false;
};

/// Calls f with a null pointer to the 16-bit type.
template <class F>
void with_16_bits(DType dtype, const F& f) {
  if (dtype == DType::f16)
    f(static_cast<Half*>(nullptr));
  else
    f(static_cast<BFloat16*>(nullptr));
}

/// Applies the chain to runs, as one thread.
class Worker {
 public:
  Worker(std::span<const Tensor> in, std::span<Tensor> out, const Chain& chain, DType dtype,
         const RandomKey& key, int64_t run, char* memory)
      : chain_(chain), dtype_(dtype), key_(key) {
    const size_t bytes = register_bytes(run, dtype);
    size_t r = 0;
    const auto next = [&] { return std::exchange(memory, memory + bytes); };
    for (const auto& list : {std::span<const Tensor>(in), std::span<const Tensor>(out)})
      for (const Tensor& t : list) {
        const bool whole = chain.is_whole(r);
        registers_[r].bind(t, chain.index[r], whole, whole ? nullptr : next());
        ++r;
      }
    for (int i = 0; i < chain.inner; ++i) registers_[r++].bind(dtype, next());
    wide_ = reinterpret_cast<float*>(memory);
  }
  static size_t register_bytes(int64_t run, DType dtype) {
    return (static_cast<size_t>(run) * size_of(dtype) + 63) / 64 * 64;
  }
  /// Of all registers that lie in no tensor, and of rows in f32.
  static size_t bytes(const Chain& chain, DType dtype, int64_t run) {
    size_t buffers = static_cast<size_t>(chain.inner);
    for (size_t r = 0; r < chain.index.size(); ++r) buffers += !chain.is_whole(r);
    const size_t wide = has_16_bits(dtype) ? ChainLink::kMaxOperands * wide_row(chain) : 0;
    return buffers * register_bytes(run, dtype) + wide * sizeof(float);
  }

  void run(int64_t at, int64_t count) {
    for (const ChainLink& link : chain_.links) switch (link.slot->kind) {
        case LinkSlot::Kind::elementwise:
          elementwise(link, at, count);
          break;
        case LinkSlot::Kind::dropout:
          dropout(link, at, count);
          break;
        case LinkSlot::Kind::rows:
          for (int64_t i = 0; i < count; i += chain_.row) row(link, at + i, i);
          break;
      }
  }

 private:
  static size_t wide_row(const Chain& chain) {
    return (static_cast<size_t>(chain.row) + 15) / 16 * 16;
  }
  char* run_of(int r, int64_t at, int64_t count) {
    return registers_[static_cast<size_t>(r)].run(at, count);
  }

  void elementwise(const ChainLink& link, int64_t at, int64_t count) {
    const int inputs = link.slot->operands - 1;  // a loop has its output first
    char* const operands[] = {run_of(link.registers[static_cast<size_t>(inputs)], at, count),
                              run_of(link.registers[0], at, count),
                              inputs == 2 ? run_of(link.registers[1], at, count) : nullptr};
    link.slot->loops[static_cast<size_t>(dtype_)](operands, count, link.params);
  }
  void dropout(const ChainLink& link, int64_t at, int64_t count) {
    link.slot->dropout_loops[static_cast<size_t>(dtype_)](run_of(link.registers[0], at, count),
                                                          run_of(link.registers[1], at, count), at,
                                                          count, link.params.a, key_);
  }
  void row(const ChainLink& link, int64_t at, int64_t within) {
    const LinkSlot& slot = *link.slot;
    void* operands[ChainLink::kMaxOperands] = {};
    bool narrow[ChainLink::kMaxOperands] = {};
    const int outputs = first_output(slot);
    const bool widens = has_16_bits(dtype_) && !slot.row_loops[static_cast<size_t>(dtype_)];
    for (int i = 0; i < slot.operands; ++i) {
      const auto k = static_cast<size_t>(i);
      if (link.registers[k] < 0) continue;
      const Register& r = registers_[static_cast<size_t>(link.registers[k])];
      operands[k] = r.row(slot.parts[k], at, within);
      narrow[k] = widens && has_16_bits(r.dtype());
      if (!narrow[k]) continue;
      float* const wide = wide_ + k * wide_row(chain_);
      if (i < outputs)
        with_16_bits(r.dtype(), [&]<class T>(T*) {
          convert_run(static_cast<const T*>(operands[k]), wide, elements(slot.parts[k]));
        });
      narrow_[k] = std::exchange(operands[k], wide);
    }
    const DType computed = widens ? DType::f32 : dtype_;
    slot.row_loops[static_cast<size_t>(computed)](operands, chain_.row, link.params);
    for (int i = outputs; i < slot.operands; ++i) {
      const auto k = static_cast<size_t>(i);
      if (narrow[k])
        with_16_bits(dtype_, [&]<class T>(T*) {
          convert_run(static_cast<const float*>(operands[k]), static_cast<T*>(narrow_[k]),
                      elements(slot.parts[k]));
        });
    }
  }
  int64_t elements(RowPart part) const { return part == RowPart::number ? 1 : chain_.row; }
  /// The first operand that the kernel writes: the last whole row, and numbers behind it.
  static int first_output(const LinkSlot& slot) {
    int at = slot.operands - 1;
    while (slot.parts[static_cast<size_t>(at)] != RowPart::row) --at;
    return at;
  }

  const Chain& chain_;
  DType dtype_;
  const RandomKey& key_;
  std::array<Register, Chain::kMaxRegisters> registers_;
  float* wide_;
  std::array<void*, ChainLink::kMaxOperands> narrow_{};
};

void chain(const Context& context, std::span<const Tensor> in, std::span<Tensor> out,
           const Chain& chain, const RandomKey& key) {
  const DType dtype = out[0].dtype();
  const int64_t longest = kRunBytes / static_cast<int64_t>(size_of(dtype));
  const int64_t unit = std::max<int64_t>(chain.row, 1);
  const int64_t run = std::max<int64_t>(longest / unit, 1) * unit;
  const int64_t units = chain.elements / unit;
  const int64_t grain = std::max<int64_t>((chain.row ? kRowGrain : kElementwiseGrain) / unit, 1);
  const PartScratch scratch(context, units, grain, Worker::bytes(chain, dtype, run));
  parallel_for(units, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    Worker worker(in, out, chain, dtype, key, run, slot.as<char>());
    for (int64_t at = begin * unit; at < end * unit; at += run)
      worker.run(at, std::min(run, end * unit - at));
  });
}

const bool registered = [] {
  for (int d = 0; is_computed(static_cast<DType>(d)); ++d)
    backend::register_kernel("chain", DeviceKind::cpu, static_cast<DType>(d), &chain);
  return true;
}();

}  // namespace
}  // namespace brim::cpu
