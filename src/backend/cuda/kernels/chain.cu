// Chains of elementwise kernels: a thread takes some neighbouring elements through all links before
// it goes on to the next. Those with a link that works on rows are in row_chain.cu.
#include <cstring>
#include <map>
#include <span>

#include "backend/cuda/elementwise/chain.cuh"
#include "backend/cuda/runtime/launch_error.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

/// Packs that a thread takes through a link together: finding the link's formula costs once.
constexpr int kTogether = 2;

/// Blocks that a multiprocessor is to hold, as far as registers last without spilling.
template <class T>
constexpr int kBlocks = sizeof(T) == 4   ? 3
                        : sizeof(T) == 8 ? 1
                                         : 2;

/// n: packs.
template <class T, int Width, bool kDraws>
__global__ void __launch_bounds__(kThreads, kBlocks<T>)
    chain_kernel(const __grid_constant__ Links links, GraphParameter<RandomKey> key_parameter,
                 int64_t n) {
  begin_kernel();
  const RandomKey key = kDraws ? key_parameter.get() : RandomKey{};
  Registers<T, Width, kTogether> registers;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x * kTogether + threadIdx.x; i < n;
       i += grid_size() * kTogether)
    run_links<T, Width, kDraws>(links, 0, links.count, i, blockDim.x, n, true, key, registers);
}

/// Formulas by the slots that stand for them: their numbers, and how they are made.
struct Formula {
  int number;
  void (*make)(const formula::Params& params, Made& made);
};
using Formulas = std::map<const backend::LinkSlot*, Formula>;

template <class F>
void make(const formula::Params& params, Made& made) {
  static_assert(sizeof(F) <= sizeof(made) && alignof(F) <= alignof(formula::Params));
  static_assert(std::is_trivially_copyable_v<F>);
  const F f(params);
  std::memcpy(made.bytes, &f, sizeof(F));
}

template <class... F>
Formulas formulas_of(formula::List<F...>) {
  Formulas all;
  int next = 0;
  (all.try_emplace(&backend::link_slot(F::kName), Formula{next++, &make<F>}), ...);
  return all;
}

Made dropping_of(double p) {
  const Dropping dropping{.limit = formula::drop_limit(p), .scale = p < 1 ? 1 / (1 - p) : 0.0};
  Made made{};
  std::memcpy(made.bytes, &dropping, sizeof(dropping));
  return made;
}

/// Which results the next link takes over, and which others read.
void set_passing(Links& links) {
  const auto reads = [&](int l, int r) {  // how often
    int operands = 0, times = 0;
    while (operands < backend::ChainLink::kMaxOperands && links.link[l].at[operands] >= 0)
      ++operands;
    const int inputs = l == links.rows ? operands : operands - 1;
    for (int k = 0; k < inputs; ++k) times += links.link[l].at[k] == r;
    return times;
  };
  for (int l = 0; l < links.count; ++l) {
    Links::Link& link = links.link[l];
    int last = 0;
    while (last + 1 < backend::ChainLink::kMaxOperands && link.at[last + 1] >= 0) ++last;
    const int to = link.at[last];
    int times = 0;
    for (int other = 0; other < links.count; ++other) times += reads(other, to);
    const bool is_pair = l != links.rows && l + 1 < links.count && l + 1 != links.rows;
    link.passes = is_pair && links.link[l + 1].at[0] == to;
    link.stored = links.place[to] != Links::kInside || times > (link.passes ? 1 : 0);
  }
}

/// Whether a link behind the one on rows reads what one before it computes, but for that one's own
/// rows, which it has at hand.
bool reads_again(const Links& links, const backend::LinkSlot& rows) {
  const auto uses = [&](int first, int end, int r, bool written) {
    for (int l = first; l < end; ++l) {
      int operands = 0;
      while (operands < backend::ChainLink::kMaxOperands && links.link[l].at[operands] >= 0)
        ++operands;
      for (int k = 0; k < operands; ++k)
        if ((k == operands - 1) == written && links.link[l].at[k] == r) return true;
    }
    return false;
  };
  const auto at_hand = [&](int r) {
    for (size_t k = 0; k < rows.parts.size(); ++k)
      if (rows.parts[k] == backend::RowPart::row && links.link[links.rows].at[k] == r) return true;
    return false;
  };
  for (int r = links.first_inside; r < Chain::kMaxRegisters; ++r)
    if (!at_hand(r) && uses(0, links.rows, r, true) && uses(links.rows + 1, links.count, r, false))
      return true;
  return false;
}

template <class T, int Width>
void queue_chain(const Context& context, const Links& links, const Chain& chain,
                 const RandomKey& key) {
  const int64_t packs = chain.elements / Width;
  const auto run = [&]<bool kDraws>(std::bool_constant<kDraws>) {
    launch(context, &chain_kernel<T, Width, kDraws>,
           card_grid(context, packs, int64_t{kThreads} * kTogether), links, graph_parameter(key),
           packs);
  };
  if constexpr (!std::is_integral_v<T>)
    if (chain.draws) return run(std::true_type());
  run(std::false_type());
}

/// The chain as kernels see it.
template <class T>
Links links_of(std::span<const Tensor> in, std::span<Tensor> out, const Chain& chain) {
  using All = decltype(join(OneNumber<T>{}, TwoNumbers<T>{}));
  static const Formulas formulas = formulas_of(All{});
  Links links;
  links.first_inside = static_cast<int>(in.size() + out.size());
  if (static_cast<size_t>(links.first_inside + chain.inner) > Chain::kMaxRegisters ||
      chain.inner > Chain::kMaxInner || chain.links.size() > Chain::kMaxLinks)
    cannot_launch("chain", "it has more links or registers than a kernel takes");
  const auto enter = [&](size_t r, const Tensor& t) {
    links.base[r] = t.raw();
    links.index[r] = chain.index[r];
    links.place[r] = chain.is_whole(r)            ? Links::kWhole
                     : chain.index[r].period == 1 ? Links::kSingle
                                                  : Links::kRepeated;
    if (chain.is_whole(r)) links.aligned = links.aligned && is_aligned(t.raw(), 16);
  };
  for (size_t i = 0; i < in.size(); ++i) enter(i, in[i]);
  for (size_t i = 0; i < out.size(); ++i) enter(in.size() + i, out[i]);
  for (int i = 0; i < chain.inner; ++i) links.place[links.first_inside + i] = Links::kInside;
  for (const backend::ChainLink& link : chain.links) {
    using Kind = backend::LinkSlot::Kind;
    Links::Link& to = links.link[links.count];
    for (size_t k = 0; k < link.registers.size(); ++k)
      to.at[k] = static_cast<int8_t>(link.registers[k]);
    if (link.slot->kind == Kind::dropout) {
      to.number = Links::kDropout;
      to.made = dropping_of(link.params.a);
    } else if (link.slot->kind == Kind::rows) {
      to.number = Links::kRows;
      links.rows = links.count;
    } else {
      const auto formula = formulas.find(link.slot);
      if (formula == formulas.end())
        cannot_launch("chain", "a link's formula is none that the device has");
      to.number = formula->second.number;
      formula->second.make(link.params, to.made);
    }
    ++links.count;
  }
  set_passing(links);
  if (links.rows >= 0)
    links.again = reads_again(links, *chain.links[static_cast<size_t>(links.rows)].slot);
  return links;
}

template <class T>
void chain(const Context& context, std::span<const Tensor> in, std::span<Tensor> out,
           const Chain& chain, const RandomKey& key) {
  if (chain.elements == 0) return;
  const Links links = links_of<T>(in, out, chain);
  if (links.rows >= 0) {
    if constexpr (!std::is_integral_v<T>)
      queue_row_chain<T>(context, links, chain, chain.links[static_cast<size_t>(links.rows)], key);
    return;
  }
  constexpr int kWidth = static_cast<int>(16 / sizeof(T));
  if (links.aligned && chain.elements % kWidth == 0)
    queue_chain<T, kWidth>(context, links, chain, key);
  else
    queue_chain<T, 1>(context, links, chain, key);
}

template <class T, class... F>
void register_formulas(formula::List<F...>) {
  (backend::register_in_chains(F::kName, DeviceKind::cuda, dtype_of<T>), ...);
}

template <class T>
void register_chain() {
  register_formulas<T>(decltype(join(OneNumber<T>{}, TwoNumbers<T>{})){});
  backend::register_kernel("chain", DeviceKind::cuda, dtype_of<T>, &chain<T>);
}

const bool registered =
    backend::for_each_type(backend::Floats{},
                           []<class T>(std::type_identity<T>) {
                             register_chain<T>();
                             backend::register_in_chains("dropout", DeviceKind::cuda, dtype_of<T>);
                           }) &&
    backend::for_each_type(backend::Integers{},
                           []<class T>(std::type_identity<T>) { register_chain<T>(); });

}  // namespace
}  // namespace brim::cuda
