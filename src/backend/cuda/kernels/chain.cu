// Chains of elementwise kernels: a thread takes some neighbouring elements through all links before
// it goes on to the next. The links are an argument; formulas are found by their number.
#include <cstring>
#include <map>
#include <span>
#include <type_traits>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/runtime/launch_error.h"
#include "backend/fused/elementwise_chain.h"
#include "formula/binary.h"
#include "formula/unary.h"

namespace brim::cuda {
namespace {

using backend::Chain;

template <class... A, class... B>
formula::List<A..., B...> join(formula::List<A...>, formula::List<B...>);

/// What elements of type T have, numbered in this order: functions of one number, then of two.
template <class T>
using OneNumber = std::conditional_t<std::is_integral_v<T>, formula::UnaryIntegerFormulas,
                                     formula::UnaryFormulas>;
template <class T>
using TwoNumbers = std::conditional_t<std::is_integral_v<T>, formula::BinaryIntegerFormulas,
                                      formula::BinaryFormulas>;

/// The memory of a formula, which the host has made.
struct Made {
  alignas(formula::Params) unsigned char bytes[sizeof(formula::Params)];
};

/// A chain as the kernel sees it.
struct Links {
  struct Link {
    Made made;
    int number;  ///< which formula that is
    int y, a, b;
  };
  enum Place : int { kSingle, kMoves, kInside };
  int count = 0;
  Link link[Chain::kMaxRegisters];
  void* base[Chain::kMaxRegisters];
  Place place[Chain::kMaxRegisters];
  int first_inside = 0;
};

/// out = formula `number` of the list, for all elements.
template <class T, int Width, class... F>
__device__ inline void apply_one(formula::List<F...>, int number, const Made& made,
                                 const Pack<T, Width>& a, Pack<T, Width>& y) {
  int k = 0;
  const auto run = [&](const auto& f) {
#pragma unroll
    for (int i = 0; i < Width; ++i) y.at[i] = apply<T>(f, a.at[i]);
    return true;
  };
  (void)((number == k++ && run(*reinterpret_cast<const F*>(made.bytes))) || ...);
}
template <class T, int Width, class... F>
__device__ inline void apply_two(formula::List<F...>, int number, const Made& made,
                                 const Pack<T, Width>& a, const Pack<T, Width>& b,
                                 Pack<T, Width>& y) {
  int k = 0;
  const auto run = [&](const auto& f) {
#pragma unroll
    for (int i = 0; i < Width; ++i) y.at[i] = apply<T>(f, a.at[i], b.at[i]);
    return true;
  };
  (void)((number == k++ && run(*reinterpret_cast<const F*>(made.bytes))) || ...);
}
template <class... F>
constexpr int count_of(formula::List<F...>) {
  return static_cast<int>(sizeof...(F));
}

/// n: packs.
template <class T, int Width>
__global__ void chain_kernel(Links links, int64_t n) {
  begin_kernel();
  using Packed = Pack<T, Width>;
  constexpr int kOne = count_of(OneNumber<T>{});
  Packed inside[Chain::kMaxInner] = {};
  for (int64_t i = first_index(); i < n; i += grid_size()) {
    const auto load = [&](int r) {
      if (links.place[r] == Links::kInside) return inside[r - links.first_inside];
      if (links.place[r] == Links::kMoves) return static_cast<const Packed*>(links.base[r])[i];
      Packed same;
      for (int k = 0; k < Width; ++k) same.at[k] = *static_cast<const T*>(links.base[r]);
      return same;
    };
    for (int l = 0; l < links.count; ++l) {
      const Links::Link& link = links.link[l];
      const Packed a = load(link.a);
      Packed y = a;
      if (link.number < kOne)
        apply_one<T, Width>(OneNumber<T>{}, link.number, link.made, a, y);
      else
        apply_two<T, Width>(TwoNumbers<T>{}, link.number - kOne, link.made, a, load(link.b), y);
      if (links.place[link.y] == Links::kInside)
        inside[link.y - links.first_inside] = y;
      else
        static_cast<Packed*>(links.base[link.y])[i] = y;
    }
  }
}

/// Formulas by the slots that stand for them: their numbers, and how they are made.
struct Formula {
  int number;
  void (*make)(const formula::Params& params, Made& made);
};
using Formulas = std::map<const backend::ElementwiseSlot*, Formula>;

template <class F>
void make(const formula::Params& params, Made& made) {
  static_assert(sizeof(F) <= sizeof(made) && alignof(F) <= alignof(formula::Params));
  static_assert(std::is_trivially_copyable_v<F>);
  const F f(params);
  std::memcpy(made.bytes, &f, sizeof(F));
}

template <class... F>
Formulas formulas_of(DType dtype, formula::List<F...>) {
  Formulas all;
  int next = 0;
  (all.try_emplace(backend::find_elementwise(F::kName, dtype), Formula{next++, &make<F>}), ...);
  return all;
}

template <class T, int Width>
void run(const Context& context, const Links& links, int64_t elements) {
  const int64_t packs = elements / Width;
  launch(context, &chain_kernel<T, Width>, grid_for(packs), links, packs);
}

template <class T>
void chain(const Context& context, std::span<const Tensor> in, std::span<Tensor> out,
           const Chain& chain) {
  const int64_t n = out[0].numel();
  if (n == 0) return;
  Links links;
  links.first_inside = static_cast<int>(in.size() + out.size());
  if (static_cast<size_t>(links.first_inside + chain.inner) > Chain::kMaxRegisters ||
      chain.links.size() > Chain::kMaxRegisters)
    cannot_launch("elementwise_chain", "the chain has more links or registers than a kernel takes");
  constexpr int kWidth = static_cast<int>(16 / sizeof(T));
  bool packs = n % kWidth == 0;
  const auto enter = [&](size_t r, const Tensor& t, bool moves) {
    links.base[r] = t.raw();
    links.place[r] = moves ? Links::kMoves : Links::kSingle;
    packs = packs && (!moves || is_aligned(t.raw(), 16));
  };
  for (size_t i = 0; i < in.size(); ++i) enter(i, in[i], in[i].numel() == n);
  for (size_t i = 0; i < out.size(); ++i) enter(in.size() + i, out[i], true);
  for (int i = 0; i < chain.inner; ++i) links.place[links.first_inside + i] = Links::kInside;
  using All = decltype(join(OneNumber<T>{}, TwoNumbers<T>{}));
  static const Formulas formulas = formulas_of(dtype_of<T>, All{});
  for (const backend::ChainLink& link : chain.links) {
    const auto formula = formulas.find(link.slot);
    if (formula == formulas.end())
      cannot_launch("elementwise_chain", "a link's formula is none that the device has");
    Links::Link& to = links.link[links.count++];
    to = {{}, formula->second.number, link.y, link.a, link.b};
    formula->second.make(link.params, to.made);
  }
  if (packs)
    run<T, kWidth>(context, links, n);
  else
    run<T, 1>(context, links, n);
}

template <class... F>
void register_formulas(formula::List<F...>) {
  (backend::register_in_chains(F::kName, DeviceKind::cuda), ...);
}

template <class... T>
bool register_all() {
  (register_formulas(decltype(join(OneNumber<T>{}, TwoNumbers<T>{})){}), ...);
  (backend::register_kernel("elementwise_chain", DeviceKind::cuda, dtype_of<T>, &chain<T>), ...);
  return true;
}

const bool registered =
    register_all<float, double, Half, BFloat16, int64_t, int32_t, int8_t, uint8_t>();

}  // namespace
}  // namespace brim::cuda
