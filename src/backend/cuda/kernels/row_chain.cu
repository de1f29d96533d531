// Chains with a link that works on rows (softmax, layer_norm): a warp or a block takes a row
// through the links before that one, combines it, and goes through those behind it with what came
// of it. The row is combined in the order of the op's own kernel, so that results are the same
// bits.
#include <cmath>
#include <string_view>

#include "backend/cuda/elementwise/chain.cuh"
#include "backend/cuda/reduce/moments.cuh"
#include "backend/cuda/reduce/normalized.cuh"
#include "backend/cuda/reduce/softmax_lines.cuh"
#include "backend/cuda/runtime/launch_error.h"
#include "backend/types.h"

namespace brim::cuda {
namespace {

constexpr int kRun = 32;  // elements that a thread gathers before it calls end()

/// The register of the row link's operand.
__device__ inline int operand(const Links& links, int k) { return links.link[links.rows].at[k]; }

/// What links that gather one operand have in common.
template <class T>
struct OneOperand {
  template <int Width>
  using Loaded = Pack<T, Width>;

  template <int Width>
  __device__ Loaded<Width> load(const Links& links, const Registers<T, Width>& registers,
                                int64_t pack) const {
    return registers.load(links, operand(links, 0), pack);
  }
  template <int Width>
  __device__ void keep(const Links& links, const Loaded<Width>& in,
                       Registers<T, Width>& registers) const {
    registers.store(links, operand(links, 0), 0, in, false);
  }
};

/// What softmax and its gradient have in common: how a line is gathered.
template <class Line>
struct LineLink {
  using Lane = typename Line::Lane;
  using Total = typename Line::Total;
  Line line{};

  template <int Width>
  __device__ void step(Lane& lane, const typename Line::template Loaded<Width>& in) const {
    line.template step<Width>(lane, in);
  }
  __device__ void end(Lane&) const {}
  __device__ Total total(const ThreadGroup& group, const Lane& lane) const {
    return line.prepared(group.combined(
        line.widen(lane), [this](const Total& a, const Total& b) { return line.combine(a, b); }));
  }
  __device__ void finish(const Links&, int64_t, const Total&) const {}
};

/// softmax and log_softmax: x, y.
template <class T, bool kLog>
struct SoftmaxLink : LineLink<Softmax<T, kLog>>, OneOperand<T> {
  using typename LineLink<Softmax<T, kLog>>::Total;
  template <int Width>
  using Loaded = typename OneOperand<T>::template Loaded<Width>;
  static constexpr int kResult = 1;

  template <int Width>
  __device__ Pack<T, Width> result(const Links&, const Loaded<Width>& in, int64_t,
                                   const Total& total) const {
    Pack<T, Width> y = in;
#pragma unroll
    for (int k = 0; k < Width; ++k) y.at[k] = this->line.result(y.at[k], total);
    return y;
  }
};

/// Their gradients: dy, y, dx.
template <class T, bool kLog>
struct SoftmaxGradLink : LineLink<SoftmaxGrad<T, kLog>> {
  using typename LineLink<SoftmaxGrad<T, kLog>>::Total;
  template <int Width>
  using Loaded = typename SoftmaxGrad<T, kLog>::template Loaded<Width>;
  static constexpr int kResult = 2;

  template <int Width>
  __device__ Loaded<Width> load(const Links& links, const Registers<T, Width>& registers,
                                int64_t pack) const {
    return {registers.load(links, operand(links, 0), pack),
            registers.load(links, operand(links, 1), pack)};
  }
  template <int Width>
  __device__ void keep(const Links& links, const Loaded<Width>& in,
                       Registers<T, Width>& registers) const {
    registers.store(links, operand(links, 0), 0, in.dy, false);
    registers.store(links, operand(links, 1), 0, in.y, false);
  }
  template <int Width>
  __device__ Pack<T, Width> result(const Links&, const Loaded<Width>& in, int64_t,
                                   const Total& total) const {
    Pack<T, Width> dx = in.dy;
#pragma unroll
    for (int k = 0; k < Width; ++k) dx.at[k] = this->line.result(dx.at[k], in.y.at[k], total);
    return dx;
  }
};

/// layer_norm: x, weight, bias, y, mean, scale.
template <class T>
struct LayerNormLink : OneOperand<T> {
  using C = Compute<T>;
  struct Lane {
    Moments moments;
    FewMoments<C> few;
  };
  struct Total {
    C mean, scale;
  };
  template <int Width>
  using Loaded = typename OneOperand<T>::template Loaded<Width>;
  static constexpr int kResult = 3;
  double eps;

  template <int Width>
  __device__ void step(Lane& lane, const Loaded<Width>& in) const {
#pragma unroll
    for (int k = 0; k < Width; ++k) lane.few.add(widen(in.at[k]));
  }
  __device__ void end(Lane& lane) const {
    lane.moments = Moments::merged(lane.moments, lane.few.moments());
    lane.few = {};
  }
  __device__ Total total(const ThreadGroup& group, const Lane& lane) const {
    const Moments moments = group.combined(lane.moments, Moments::merged);
    return {static_cast<C>(moments.mean), static_cast<C>(1 / std::sqrt(moments.var() + eps))};
  }
  __device__ void finish(const Links& links, int64_t row, const Total& total) const {
    static_cast<C*>(links.base[operand(links, 4)])[row] = total.mean;
    static_cast<C*>(links.base[operand(links, 5)])[row] = total.scale;
  }
  template <int Width>
  __device__ Pack<T, Width> result(const Links& links, const Loaded<Width>& in, int64_t i,
                                   const Total& total) const {
    const auto columns = [&](int k) {
      const int r = operand(links, k);
      return r < 0 ? nullptr : static_cast<const T*>(links.base[r]);
    };
    return normalized<Width>(in, total.mean, total.scale, columns(1), columns(2), i, false);
  }
};

template <class T, int Width, class Op, bool kDraws>
__global__ void __launch_bounds__(kThreads, 1)
    row_chain_kernel(const __grid_constant__ Links links, Op op,
                     GraphParameter<RandomKey> key_parameter, int64_t rows, int64_t n,
                     int threads) {
  begin_kernel();
  using Loaded = typename Op::template Loaded<Width>;
  const RandomKey key = kDraws ? key_parameter.get() : RandomKey{};
  const ThreadGroup group(threads);
  Registers<T, Width> registers;
  for (int64_t row = group.first_row; row < rows; row += group.rows_at_once) {
    const int64_t first = row * (n / Width);
    bool outside = true;  // the first time through, links write what others read
    const auto before = [&](int64_t pack) {
      call_links<T, Width, kDraws>(links, 0, links.rows, pack, outside, key, registers);
    };
    const auto load = [&](int64_t i) -> Loaded {
      before(first + i / Width);
      return op.template load<Width>(links, registers, first + i / Width);
    };
    RowShare<Width, Loaded> share(group, n);
    share.read(load);
    typename Op::Lane lane{};
    share.template each<kRun / Width>(
        load, [&](const Loaded& in, int64_t) { op.template step<Width>(lane, in); },
        [&] { op.end(lane); });
    const typename Op::Total total = op.total(group, lane);
    if (group.rank == 0) op.finish(links, row, total);
    outside = false;
    share.each(load, [&](const Loaded& in, int64_t i) {
      const int64_t pack = first + i / Width;
      if (links.again && share.is_held()) before(pack);
      op.template keep<Width>(links, in, registers);
      registers.store(links, operand(links, Op::kResult), pack,
                      op.template result<Width>(links, in, i, total), true);
      call_links<T, Width, kDraws>(links, links.rows + 1, links.count, pack, true, key, registers);
    });
  }
}

template <class T, class Op>
void queue(const Context& context, const Links& links, const Chain& chain, const Op& op,
           const RandomKey& key) {
  constexpr int kWidth = static_cast<int>(16 / sizeof(T));
  const int64_t n = chain.row, rows = chain.elements / n;
  const int threads = threads_per_row(n);  // kThreads at most: rows are short (Chain::kMaxRow)
  const auto run = [&]<int Width, bool kDraws>(std::integral_constant<int, Width>,
                                               std::bool_constant<kDraws>) {
    launch_blocks(context, &row_chain_kernel<T, Width, Op, kDraws>, row_grid(rows, threads), links,
                  op, graph_parameter(key), rows, n, threads);
  };
  const auto draw = [&](auto width) {
    if (chain.draws)
      run(width, std::true_type());
    else
      run(width, std::false_type());
  };
  if (n % kWidth == 0)
    draw(std::integral_constant<int, kWidth>());
  else
    draw(std::integral_constant<int, 1>());
}

}  // namespace

template <class T>
void queue_row_chain(const Context& context, const Links& links, const Chain& chain,
                     const backend::ChainLink& rows, const RandomKey& key) {
  const auto is = [&](std::string_view name) { return rows.slot == &backend::link_slot(name); };
  if (is("softmax"))
    queue<T>(context, links, chain, SoftmaxLink<T, false>{}, key);
  else if (is("log_softmax"))
    queue<T>(context, links, chain, SoftmaxLink<T, true>{}, key);
  else if (is("softmax_grad"))
    queue<T>(context, links, chain, SoftmaxGradLink<T, false>{}, key);
  else if (is("log_softmax_grad"))
    queue<T>(context, links, chain, SoftmaxGradLink<T, true>{}, key);
  else if (is("layer_norm"))
    queue<T>(context, links, chain, LayerNormLink<T>{{}, rows.params.a}, key);
  else
    cannot_launch("chain", "a link works on rows in a way that the device has not");
}

template void queue_row_chain<float>(const Context&, const Links&, const Chain&,
                                     const backend::ChainLink&, const RandomKey&);
template void queue_row_chain<double>(const Context&, const Links&, const Chain&,
                                      const backend::ChainLink&, const RandomKey&);
template void queue_row_chain<Half>(const Context&, const Links&, const Chain&,
                                    const backend::ChainLink&, const RandomKey&);
template void queue_row_chain<BFloat16>(const Context&, const Links&, const Chain&,
                                        const backend::ChainLink&, const RandomKey&);

namespace {

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      for (const char* name :
           {"softmax", "log_softmax", "softmax_grad", "log_softmax_grad", "layer_norm"})
        backend::register_in_chains(name, DeviceKind::cuda, dtype_of<T>);
    });

}  // namespace
}  // namespace brim::cuda
