#include "train/sparse_weights.h"

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/json_text.h"

namespace brim::train {
namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 31;  // of a weight

/// A shape of 2 or 4 axes with so many numbers at most; of rank 0: none.
Shape weight_shape(const nlohmann::json& list) {
  if (!list.is_array() || (list.size() != 2 && list.size() != 4)) return {};
  Shape shape;
  int64_t numbers = 1;
  for (const auto& entry : list) {
    if (!entry.is_number_unsigned() || entry.get<uint64_t>() > kMostNumbers) return {};
    const auto size = entry.get<int64_t>();
    if (size > 0 && numbers > kMostNumbers / size) return {};
    numbers *= size;
    shape.push_back(size);
  }
  return shape;
}

}  // namespace

SparseIndex sparse_index(const io::Metadata& metadata, const std::string& path) {
  SparseIndex index;
  const auto found = metadata.find(kSparseKey);
  if (found == metadata.end()) return index;
  const auto json = parse_json(found->second);
  const auto damaged = [&] {
    raise<FileError>("[weights] {}: the metadata {} says nothing of weights; the file is damaged",
                     path, kSparseKey);
  };
  if (!json.is_object()) damaged();
  for (const auto& [name, entry] : json.items()) {
    const auto shape = entry.find("shape"), vector = entry.find("vector");
    if (!entry.is_object() || shape == entry.end() || vector == entry.end() ||
        !vector->is_number_unsigned() || vector->get<uint64_t>() > 64)
      damaged();
    SparseWeight& weight = index[name];
    weight.shape = weight_shape(*shape);
    weight.vector = vector->get<int64_t>();
    if (weight.shape.rank() == 0 || weight.vector == 0) damaged();
  }
  return index;
}

io::TensorMap sparse_tensors(const io::TensorMap& dense, int64_t vector, io::Metadata& metadata) {
  io::TensorMap tensors;
  auto index = nlohmann::json::object();
  for (const auto& [name, tensor] : dense) {
    const bool is_weight = tensor.dtype() == DType::f32 &&
                           (tensor.rank() == 2 || tensor.rank() == 4) && tensor.numel() > 0;
    if (is_weight) {
      const SparseWeight w = SparseWeight::encode(tensor, vector);
      if (w.bytes() < 4 * tensor.numel()) {
        const auto put = [&, of = name](const std::string& part, const Tensor& t) {
          BRIM_CHECK(!dense.contains(part), ValueError,
                     "[weights] {} is a tensor, so {} cannot be stored sparse; rename it", part,
                     of);
          tensors[part] = t;
        };
        put(name + ".values", w.values);
        put(name + ".columns", w.columns);
        put(name + ".starts", w.starts);
        index[name] = {{"shape", std::vector<int64_t>(w.shape.begin(), w.shape.end())},
                       {"vector", vector}};
        continue;
      }
    }
    tensors[name] = tensor;
  }
  metadata.erase(kSparseKey);
  if (!index.empty()) metadata[kSparseKey] = index.dump();
  return tensors;
}

}  // namespace brim::train
