// An engine's file as it lies on the disk and in memory: a header, tables of records, and weights
// laid out for the kernels. Little-endian; tables begin at multiples of 8 bytes, weights of 64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brim::rt {

inline constexpr char kMagic[8] = {'b', 'r', 'i', 'm', '-', 'r', 't', '\n'};
inline constexpr uint32_t kByteOrder = 0x01020304;
inline constexpr uint32_t kFormat = 1;  ///< raised whenever older runtimes would misread a file
inline constexpr int kMaxRank = 6;
inline constexpr size_t kAlignment = 64;  ///< of weights, and of values in the arena

/// A table: `count` records from byte `at` of the file on.
struct Range {
  uint64_t at, count;
};

struct FileHeader {
  char magic[8];
  uint32_t byte_order, format;
  uint64_t bytes;  ///< of the file
  uint64_t hash;   ///< XXH64 of all behind the header
  Range text;      ///< bytes: strings that end with a NUL; others name their first byte
  Range metadata;  ///< MetadataRecord
  Range labels;    ///< uint32_t, of the text
  Range programs;  ///< ProgramRecord, one for each size of a batch
  Range proof;     ///< ProofRecord: of each input, then of each output
  Range weights;   ///< bytes
  int64_t proof_samples;
  double tolerance;  ///< of outputs, as a share of the largest one
};

struct MetadataRecord {
  uint32_t key, value;
};

/// The elements of an input or output for the samples of the proof.
struct ProofRecord {
  uint64_t at, bytes;
};

struct ProgramRecord {
  int64_t batch;  ///< samples of a run
  int64_t pass;   ///< samples that go through the steps together; divides the batch
  uint64_t arena_bytes;
  Range values;           ///< ValueRecord
  Range steps;            ///< StepRecord
  Range ids;              ///< uint32_t: the values that steps take and make
  Range words;            ///< int64_t: the attributes of steps
  Range inputs, outputs;  ///< PortRecord
};

struct PortRecord {
  uint32_t name, value;
};

enum class DType : uint8_t { f32, i64, u8, i32 };
inline constexpr int kDTypes = 4;
constexpr size_t size_of(DType dtype) {
  return dtype == DType::i64 ? 8 : dtype == DType::u8 ? 1 : 4;
}

/// Where a value's elements are.
enum class Place : uint8_t {
  weights,  ///< `at` bytes behind their first
  arena,    ///< of the session
  input,    ///< the program's input number `at`
  output
};

struct ValueRecord {
  DType dtype;
  uint8_t rank;
  Place place;
  uint8_t reserved[5];
  int64_t dims[kMaxRank];
  uint64_t at;
};

struct StepRecord {
  uint32_t op;        ///< OpCode
  uint32_t name;      ///< the module it is of, and what it computes
  uint32_t first_id;  ///< of its inputs, then its outputs
  uint16_t inputs, outputs;
  uint32_t first_word, words;
};

/// Kept for good: files hold them.
enum class OpCode : uint32_t {
  convolution = 1,
  winograd = 2,
  depthwise = 3,
  max_pool = 4,
  average_pool = 5,
  unary = 6,
  binary = 7,
  softmax = 8,
  layer_norm = 9,
  copy = 10,
  matmul = 11,  ///< a: (.., m, k), b: (.., k, n), y: (.., m, n); leading axes broadcast
  gather = 12,
  quantize = 13,
  int8_convolution = 14,
  int8_winograd = 15,      ///< by Winograd's transform where that is the faster way
  quantize_colours = 16,   ///< (n, 3, h, w) in f32 to (n, h, w, 3) in u8
  plane_convolution = 17,  ///< of few channels and outputs; pooled where the network has that
  resize = 18,             ///< bilinear
  picture = 32,            ///< ops/picture.h
  top = 33,                ///< ops/choice.h
  argmax = 34,
};

}  // namespace brim::rt
