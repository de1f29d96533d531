// Layers in 8-bit integers whose weights have kept columns only (see brim/ops/sparse_int8.h).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backend/cpu/conv/implicit_gemm.h"
#include "backend/cpu/conv/phase_planes.h"
#include "backend/cpu/int8/int8_finish.h"
#include "backend/cpu/int8/int8_rows.h"
#include "backend/cpu/runtime/elements.h"
#include "backend/cpu/sparse/sparse_index.h"
#include "backend/cpu/sparse/sparse_int8.h"
#include "backend/kernel.h"
#include "backend/options/int8.h"

namespace brim::cpu {
namespace {

using backend::ConvGeometry;
using backend::SparseInt8Call;

// Rows up to which outputs are in the lanes of vectors, and each row's inputs are gathered: for
// more of them it takes less to have rows there.
constexpr int64_t kGatheredRows = 5;
constexpr int kMaxPair = 128;  // 128 x 255 fits into an i16

/// Where a group's packed columns begin: each group has up to 3 more of them, which are zeros.
int64_t packed_start(const SparseIndex& index, int64_t g) { return index.starts[g] + 3 * g; }
/// Where the second half of packed weights begins.
int64_t narrow_begin(const SparseIndex& index) {
  return packed_start(index, index.groups) * index.vector;
}

/// How many of a group's columns come in pairs whose products always fit into an i16 together (see
/// SparseInt8Group).
int64_t narrow_columns(const int8_t* values, int64_t kept, int64_t vector) {
  int64_t j = 0;
  for (; j + 4 <= kept; j += 4)
    for (int64_t pair = j; pair < j + 4; pair += 2)
      for (int64_t o = 0; o < vector; ++o) {
        const int a = values[pair * vector + o], b = values[(pair + 1) * vector + o];
        if (std::abs(a + b) > kMaxPair && a != 0 && b != 0 && (a < 0) == (b < 0)) return j;
      }
  return j;
}

/// values (kept, vector): of each group in steps of columns, outputs, columns of a step. Behind all
/// of them, the same in steps of 4 for the columns that narrow_columns() counts, and these counts.
void pack(const Context&, const Tensor& values, const Tensor& starts, Tensor& packed) {
  const int64_t group = int8_layout().group, vector = values.size(1);
  const SparseIndex index({}, starts, {}, vector, 0);
  const auto* const from = in<int8_t>(values);
  auto* const to = out<int8_t>(packed);
  std::fill_n(to, packed.numel(), int8_t{0});
  for (int64_t g = 0; g < index.groups; ++g)
    for (int64_t j = 0; j < index.kept_of(g); ++j)
      for (int64_t o = 0; o < vector; ++o)
        to[packed_start(index, g) * vector + (j / group * vector + o) * group + j % group] =
            from[(index.starts[g] + j) * vector + o];
  if (group == 4) return;
  int8_t* const narrow = to + narrow_begin(index);
  for (int64_t g = 0; g < index.groups; ++g) {
    const int8_t* const values_of = from + index.starts[g] * vector;
    const auto count = static_cast<int32_t>(narrow_columns(values_of, index.kept_of(g), vector));
    for (int64_t j = 0; j < count; ++j)
      for (int64_t o = 0; o < vector; ++o)
        narrow[packed_start(index, g) * vector + (j / 4 * vector + o) * 4 + j % 4] =
            values_of[j * vector + o];
    std::memcpy(narrow + narrow_begin(index) + 4 * g, &count, 4);
  }
}

/// The operands of a call but for its inputs.
struct Operands {
  const Tensor &packed, &columns, &starts, &outputs, &sums, &scales, &bias, &correction;
};

/// The weight of a call, and what becomes of its sums.
class Weight {
 public:
  /// `width`: columns of the dense weight; fill(offsets): writes where each of them is from where a
  /// row or run begins.
  template <class Fill>
  Weight(const Context& context, const Operands& t, int64_t width, const SparseInt8Call& call,
         const Fill& fill)
      : index_(t.columns, t.starts, t.outputs, call.vector, t.scales.numel()),
        packed_(in<int8_t>(t.packed)),
        padded_(round_up(index_.groups * index_.vector, 16) + 16),
        finishes_(context.workspace(int8_finish_bytes(padded_))),
        offsets_(
            context.workspace(static_cast<size_t>(std::max<int64_t>(width, 1)) * sizeof(int64_t))) {
    index_.check(width);
    fill(offsets_.as<int64_t>());
    finish_ = int8_finish(finishes_, padded_, {t.sums, t.scales, t.bias, t.correction}, call.layer,
                          [this](int64_t position) { return index_.output(position); });
  }

  const SparseIndex& index() const { return index_; }
  int64_t steps(int64_t g) const {
    return round_up(index_.kept_of(g), layout_.group) / layout_.group;
  }
  const int8_t* packed(int64_t g) const {
    return packed_ + packed_start(index_, g) * index_.vector;
  }
  const int64_t* offsets() const { return offsets_.as<int64_t>(); }
  SparseInt8Group group(int64_t g) const {
    return {.weights = packed(g),
            .columns = index_.columns + index_.starts[g],
            .kept = index_.kept_of(g),
            .narrow = narrow(g),
            .narrow_weights = packed(g) + narrow_begin(index_),
            .runs = offsets(),
            .vector = index_.vector};
  }
  Int8Finish finish(int64_t g) const {
    Int8Finish f = finish_;
    f.start += g * index_.vector;
    f.scale += g * index_.vector;
    f.shift += g * index_.vector;
    return f;
  }
  const Int8Layout& layout() const { return layout_; }
  int64_t narrow(int64_t g) const {
    if (layout_.group == 4) return 0;
    int32_t count;
    std::memcpy(&count, packed_ + 2 * narrow_begin(index_) + 4 * g, 4);
    return std::clamp<int64_t>(count, 0, index_.kept_of(g) / 4 * 4);
  }

 private:
  const Int8Layout layout_ = int8_layout();
  const SparseIndex index_;
  const int8_t* packed_;
  const int64_t padded_;
  const Workspace finishes_, offsets_;
  Int8Finish finish_{};
};

/// Few rows: their inputs are gathered for each group, and outputs are in the lanes of vectors.
/// `offsets`: of the weight, or null for columns that are neighbours.
template <class T, class RowAt, class Take>
void gathered_products(const Context& context, const Weight& weight, const uint8_t* x,
                       const int64_t* offsets, int64_t rows, const RowAt& row_at,
                       const Take& take) {
  const SparseIndex& index = weight.index();
  const Int8Layout layout = weight.layout();
  int64_t steps = 0;  // of the longest group
  for (int64_t g = 0; g < index.groups; ++g) steps = std::max(steps, weight.steps(g));
  const int64_t width = steps * layout.group, ld = round_up(index.vector, layout.lanes);
  const Workspace table =
      context.workspace(static_cast<size_t>(std::max<int64_t>(steps, 1)) * sizeof(int32_t));
  auto* const in_order = table.as<int32_t>();
  for (int64_t j = 0; j < steps; ++j) in_order[j] = static_cast<int32_t>(j * layout.group);
  const size_t bytes_of_inputs = room_for<char>(rows * width * layout.input_bytes());
  const int64_t work = rows * std::max<int64_t>(index.work(), 1);
  const int64_t grain = std::max<int64_t>(1, kRowGrain / work / 4);
  const PartScratch scratch(context, index.groups, grain,
                            bytes_of_inputs + static_cast<size_t>(rows * ld) * sizeof(T));
  parallel_for(index.groups, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    char* const inputs = slot.as<char>();
    T* const y = reinterpret_cast<T*>(inputs + bytes_of_inputs);
    for (int64_t g = begin; g < end; ++g) {
      int64_t begins[kGatheredRows];
      const int64_t count = weight.steps(g) * layout.group, kept = index.kept_of(g);
      const int32_t* const columns = index.columns + index.starts[g];
      const auto gather = [&](auto* to) {
        for (int64_t r = 0; r < rows; ++r) {
          begins[r] = r * width;
          const uint8_t* const row = x + row_at(r);
          for (int64_t j = 0; j < kept; ++j)
            to[begins[r] + j] = row[offsets ? offsets[columns[j]] : columns[j]];
          for (int64_t j = kept; j < count; ++j) to[begins[r] + j] = 0;  // times zeros
        }
      };
      if (layout.input_bytes() == 1)
        gather(reinterpret_cast<uint8_t*>(inputs));
      else
        gather(reinterpret_cast<int16_t*>(inputs));
      int8_rows({.x = inputs,
                 .rows = begins,
                 .count = rows,
                 .offsets = in_order,
                 .steps = weight.steps(g),
                 .weights = weight.packed(g),
                 .strips = ld / layout.lanes,
                 .step_bytes = index.vector * layout.group,
                 .strip_bytes = layout.lanes * layout.group},
                weight.finish(g), y, ld);
      take(RowResults<T>{.from = y,
                         .step = ld,
                         .first = 0,
                         .count = rows,
                         .output = g * index.vector,
                         .used = index.used_of(g),
                         .order = index.order_of(g)});
    }
  });
}

/// What a block of positions is of.
struct Block {
  const uint8_t* x;
  int64_t count;
};

/// Outputs of a block: (vector, kPositions).
template <class T>
struct BlockResults {
  const T* planes;
  T* rows;  ///< as many numbers, for the transpose
  int64_t group;
};

/// Calls take(block's index, BlockResults) for all blocks and groups.
template <class T, class BlockAt, class Take>
void block_products(const Context& context, const Weight& weight, int64_t blocks,
                    const BlockAt& block_at, const Take& take) {
  const SparseIndex& index = weight.index();
  const int64_t units = blocks * index.groups, vector = index.vector;
  const int64_t grain =
      std::max<int64_t>(1, kRowGrain / std::max<int64_t>(index.work() * kPositions, 1));
  const size_t bytes = (sparse_int8_scratch(vector) + 63) / 64 * 64;
  const PartScratch scratch(context, units, grain,
                            bytes + 2 * static_cast<size_t>(vector * kPositions) * sizeof(T));
  parallel_for(units, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    T* const y = reinterpret_cast<T*>(slot.as<char>() + bytes);
    for (int64_t u = begin; u < end; ++u) {
      const int64_t b = u / index.groups, g = u % index.groups;
      const Block block = block_at(b);
      sparse_int8_block(block.x, block.count, weight.group(g), weight.finish(g), y,
                        slot.as<char>());
      take(b, BlockResults<T>{y, y + vector * kPositions, g});
    }
  });
}

/// Into rows of y that are index.count long: `count` positions from `at` on, transposed in `r.rows`
/// already.
template <class T>
void copy_positions(const SparseIndex& index, const BlockResults<T>& r, int64_t at, int64_t count,
                    int64_t row, T* y) {
  copy_rows(RowResults<T>{.from = r.rows + at * index.vector,
                          .step = index.vector,
                          .first = row,
                          .count = count,
                          .output = r.group * index.vector,
                          .used = index.used_of(r.group),
                          .order = index.order_of(r.group)},
            y, index.count);
}
template <class T>
void transpose_positions(const SparseIndex& index, const BlockResults<T>& r, int64_t count) {
  transpose_tile(r.planes, kPositions, index.vector, count, r.rows, index.vector);
}

void sparse_int8_linear(const Context& context, const Tensor& x, const Tensor& packed,
                        const Tensor& columns, const Tensor& starts, const Tensor& outputs,
                        const Tensor& sums, const Tensor& scales, const Tensor& bias,
                        const Tensor& correction, Tensor& y, const SparseInt8Call& call) {
  const Operands operands{packed, columns, starts, outputs, sums, scales, bias, correction};
  const int64_t rows = y.shape()[0], width = x.shape()[1], count = y.shape()[1];
  if (y.numel() == 0) return;
  const auto* const from = in<uint8_t>(x);
  if (rows <= kGatheredRows) {
    const Weight weight(context, operands, width, call, [](int64_t*) {});
    for_output(y, [&]<class T>(T) {
      gathered_products<T>(
          context, weight, from, nullptr, rows, [&](int64_t row) { return row * width; },
          [&, to = out<T>(y)](const RowResults<T>& r) { copy_rows(r, to, count); });
    });
    return;
  }
  // Blocks of rows, each with its columns as runs.
  const int64_t blocks = (rows + kPositions - 1) / kPositions;
  const int64_t ld = std::min(round_up(rows, kPositionStep), kPositions), block_bytes = width * ld;
  const Workspace runs = context.workspace(static_cast<size_t>(blocks * block_bytes + kPositions));
  auto* const planes = runs.as<uint8_t>();
  constexpr int64_t kColumns = 64;  // of a tile
  const int64_t tiles = (width + kColumns - 1) / kColumns;
  const auto rows_of = [&](int64_t b) { return std::min(kPositions, rows - b * kPositions); };
  parallel_for(blocks * tiles, 16, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t b = u / tiles, column = u % tiles * kColumns;
      transpose_tile(from + b * kPositions * width + column, width, rows_of(b),
                     std::min(kColumns, width - column), planes + b * block_bytes + column * ld,
                     ld);
    }
  });
  const Weight weight(context, operands, width, call, [&](int64_t* offsets) {
    for (int64_t column = 0; column < width; ++column) offsets[column] = column * ld;
  });
  for_output(y, [&]<class T>(T) {
    block_products<T>(
        context, weight, blocks,
        [&](int64_t b) {
          return Block{planes + b * block_bytes, rows_of(b)};
        },
        [&, to = out<T>(y)](int64_t b, const BlockResults<T>& r) {
          transpose_positions(weight.index(), r, rows_of(b));
          copy_positions(weight.index(), r, 0, rows_of(b), b * kPositions, to);
        });
  });
}

/// Images of few columns are transposed as a whole, not row by row.
const uint8_t* planar(const Tensor& x, const ConvGeometry& g, const Workspace& images) {
  transpose(in<uint8_t>(x), g.n, g.h * g.w, g.c, images.as<uint8_t>());
  return images.as<uint8_t>();
}

void sparse_int8_conv2d(const Context& context, const Tensor& x, const Tensor& packed,
                        const Tensor& columns, const Tensor& starts, const Tensor& outputs,
                        const Tensor& sums, const Tensor& scales, const Tensor& bias,
                        const Tensor& correction, Tensor& y, const ConvGeometry& g,
                        const SparseInt8Call& call) {
  if (y.numel() == 0) return;
  const Operands operands{packed, columns, starts, outputs, sums, scales, bias, correction};
  const PhasePlanes planes(g);
  const int64_t area = g.kh * g.kw, pixels = g.oh * g.ow, rows = g.n * pixels;
  const Weight weight(context, operands, g.c * area, call, [&](int64_t* offsets) {
    for (int64_t k = 0; k < area; ++k)
      for (int64_t c = 0; c < g.c; ++c)
        offsets[c * area + k] = planes.offset(k, 0) + c * planes.plane();
  });
  const bool is_nhwc = are_nhwc(x, x), y_is_nhwc = are_nhwc(y, y) || pixels == 1;
  const bool is_transposed = is_nhwc && g.w < 16 * g.stride.w && g.h * g.w >= 16;
  const Workspace images =
      context.workspace(is_transposed ? static_cast<size_t>(x.numel()) : size_t{0});
  const Workspace memory = context.workspace(static_cast<size_t>(planes.size()));
  auto* const from = memory.as<uint8_t>();
  planes.fill(is_transposed ? planar(x, g, images) : in<uint8_t>(x), is_nhwc && !is_transposed,
              static_cast<uint8_t>(call.layer.input.zero_point), from);
  if (rows <= kGatheredRows) {
    for_output(y, [&]<class T>(T) {
      gathered_products<T>(
          context, weight, from, weight.offsets(), rows,
          [&](int64_t row) { return planes.position(row); },
          [&, to = out<T>(y)](const RowResults<T>& r) { copy_to_images(r, y_is_nhwc, g, to); });
    });
    return;
  }
  const int64_t of_run = (planes.length() + kPositions - 1) / kPositions;
  const auto first_of = [&](int64_t b) { return b % of_run * kPositions; };
  const auto count_of = [&](int64_t b) {
    return std::min(kPositions, planes.length() - first_of(b));
  };
  for_output(y, [&]<class T>(T) {
    block_products<T>(
        context, weight, planes.runs() * of_run,
        [&](int64_t b) {
          return Block{from + planes.run(b / of_run) + first_of(b), count_of(b)};
        },
        [&, to = out<T>(y)](int64_t b, const BlockResults<T>& r) {
          const SparseIndex& index = weight.index();
          static thread_local std::vector<PositionPiece> pieces;
          planes.pieces(b / of_run, first_of(b), count_of(b), pieces);
          if (y_is_nhwc) transpose_positions(index, r, count_of(b));
          for (const PositionPiece& piece : pieces) {
            if (y_is_nhwc) {
              copy_positions(index, r, piece.at, piece.count, piece.row, to);
              continue;
            }
            T* const image = to + piece.row / pixels * g.o * pixels + piece.row % pixels;
            for (int64_t i = 0; i < index.used_of(r.group); ++i)
              std::copy_n(r.planes + i * kPositions + piece.at, piece.count,
                          image + index.output(r.group * index.vector + i) * pixels);
          }
        });
  });
}

const bool registered =
    backend::register_kernel("sparse_int8_pack", DeviceKind::cpu, DType::i8, &pack) &&
    backend::register_kernel("sparse_int8_linear", DeviceKind::cpu, DType::u8,
                             &sparse_int8_linear) &&
    backend::register_kernel("sparse_int8_conv2d", DeviceKind::cpu, DType::u8, &sparse_int8_conv2d);

}  // namespace
}  // namespace brim::cpu
