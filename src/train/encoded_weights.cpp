#include "train/encoded_weights.h"

#include <brim/ops/sparse.h>
#include <brim/ops/sparse_int8.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/json_text.h"

namespace brim::train {
namespace {

constexpr int64_t kMaxNumbers = int64_t{1} << 31;  // of a weight
constexpr uint64_t kMaxGrowth = 1000;              // of sparse weights: 99.9 % of zeros

/// A shape of 2 or 4 axes with so many numbers at most; of rank 0: none.
Shape weight_shape(const nlohmann::json& list) {
  if (!list.is_array() || (list.size() != 2 && list.size() != 4)) return {};
  Shape shape;
  int64_t numbers = 1;
  for (const auto& entry : list) {
    if (!entry.is_number_unsigned() || entry.get<uint64_t>() > kMaxNumbers) return {};
    const auto size = entry.get<int64_t>();
    if (size > 0 && numbers > kMaxNumbers / size) return {};
    numbers *= size;
    shape.push_back(size);
  }
  return shape;
}

using Encoded = WeightsFile::Encoded;

[[noreturn]] void refuse(const std::string& path, const char* key) {
  raise<FileError>("[weights] {}: the metadata {} describes no weight; the file is damaged", path,
                   key);
}

bool flag(const nlohmann::json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_boolean() && found->get<bool>();
}

/// A part that a weight may have: both or neither of the metadata and the file know of it.
void check_part(const io::SafeTensors& file, const std::string& path, const std::string& part,
                bool is_expected) {
  BRIM_CHECK(file.contains(part) == is_expected, FileError,
             "[weights] {}: {} is {}; the file is damaged", path, part,
             is_expected ? "missing" : "there, and the metadata knows nothing of it");
}

/// The metadata `key`, an object; null where there is none.
nlohmann::json index_of(const io::SafeTensors& file, const char* key, const std::string& path) {
  const io::Metadata& metadata = file.metadata();
  const auto found = metadata.find(key);
  if (found == metadata.end()) return nullptr;
  nlohmann::json index = parse_json(found->second);
  if (!index.is_object()) refuse(path, key);
  return index;
}

/// What `make` makes of the file's parts.
Encoded encoded(const std::string& path, const std::string& name, const Shape& shape,
                std::vector<std::string> parts,
                std::function<Tensor(const io::SafeTensors&)> make) {
  return {.info = {.dtype_name = "F32",
                   .dtype = DType::f32,
                   .shape = shape,
                   .bytes = 4 * static_cast<uint64_t>(shape.numel())},
          .parts = std::move(parts),
          .load = [path, name, make = std::move(make)](const io::SafeTensors& file) {
            try {
              return make(file);
            } catch (const ValueError& e) {
              raise<FileError>("[weights] {}: {} is damaged: {}", path, name, e.what());
            } catch (const ShapeError& e) {
              raise<FileError>("[weights] {}: {} is damaged: {}", path, name, e.what());
            }
          }};
}

/// What the metadata says of a weight without its columns of zeros, and the parts that it has in
/// the file.
struct SparseEntry {
  std::string name;
  Shape shape;
  int64_t vector = 0;
  bool is_permuted = false;
  std::vector<std::string> parts;

  SparseEntry(const io::SafeTensors& file, const std::string& path, const char* key, std::string of,
              const nlohmann::json& entry)
      : name(std::move(of)) {
    const auto found = entry.find("shape"), length = entry.find("vector");
    if (!entry.is_object() || found == entry.end() || length == entry.end() ||
        !length->is_number_unsigned() || length->get<uint64_t>() > 64)
      refuse(path, key);
    shape = weight_shape(*found);
    vector = length->get<int64_t>();
    if (shape.rank() == 0 || vector == 0) refuse(path, key);
    parts = {name + ".values", name + ".columns", name + ".starts"};
    is_permuted = flag(entry, "permuted");
    check_part(file, path, name + ".outputs", is_permuted);
    if (is_permuted) parts.push_back(name + ".outputs");
  }
  /// SparseWeight or SparseInt8Weight, unchecked.
  template <class Weight>
  Weight load(const io::SafeTensors& file) const {
    Weight weight;
    weight.shape = shape;
    weight.vector = vector;
    weight.values = file.load(name + ".values");
    weight.columns = file.load(name + ".columns");
    weight.starts = file.load(name + ".starts");
    if (is_permuted) weight.outputs = file.load(name + ".outputs");
    return weight;
  }
};

void find_sparse(const io::SafeTensors& file, const std::string& path,
                 std::map<std::string, Encoded>& all) {
  const nlohmann::json index = index_of(file, kSparseKey, path);
  for (const auto& [name, entry] : index.items()) {
    const SparseEntry sparse(file, path, kSparseKey, name, entry);
    all[name] = encoded(
        path, name, sparse.shape, sparse.parts,
        [sparse](const io::SafeTensors& from) { return sparse.load<SparseWeight>(from).dense(); });
  }
}

void find_int8(const io::SafeTensors& file, const std::string& path,
               std::map<std::string, Encoded>& all) {
  const nlohmann::json index = index_of(file, kInt8Key, path);
  for (const auto& [name, entry] : index.items()) {
    const auto scale = entry.find("scale"), zero_point = entry.find("zero_point");
    if (!entry.is_object() || scale == entry.end() || zero_point == entry.end() ||
        !scale->is_number() || !zero_point->is_number_unsigned() ||
        zero_point->get<uint64_t>() > 255)
      raise<FileError>(
          "[weights] {}: the metadata {} has no scale and zero point in 0..255 for {}; the file is "
          "damaged",
          path, kInt8Key, name);
    BRIM_CHECK(!all.contains(name), FileError,
               "[weights] {} holds {} twice, sparse and in integers; the file is damaged", path,
               name);
    std::optional<SparseEntry> sparse;
    if (entry.contains("vector")) sparse.emplace(file, path, kInt8Key, name, entry);
    std::vector<std::string> parts = sparse ? sparse->parts : std::vector{name + ".values"};
    parts.push_back(name + ".scales");
    const bool is_corrected = flag(entry, "corrected");
    check_part(file, path, name + ".correction", is_corrected);
    if (is_corrected) parts.push_back(name + ".correction");
    const auto layer = [sparse, is_corrected, name = name, scale = scale->get<float>(),
                        zero_point = zero_point->get<int32_t>()](const io::SafeTensors& from) {
      compress::Int8Layer made{.weight = {}, .input = {.scale = scale, .zero_point = zero_point}};
      const Tensor scales = from.load(name + ".scales");
      const Tensor correction = is_corrected ? from.load(name + ".correction") : Tensor();
      if (!sparse) {
        made.weight = Int8Weight::of(from.load(name + ".values"), scales, correction);
        return made;
      }
      auto weight = sparse->load<SparseInt8Weight>(from);
      weight.scales = scales;
      weight.correction = correction;
      made.sparse = SparseInt8Weight::of(std::move(weight));
      return made;
    };
    Encoded& made = all[name] =
        encoded(path, name, sparse ? sparse->shape : file.info(name + ".values").shape,
                std::move(parts), [layer](const io::SafeTensors& from) {
                  const compress::Int8Layer of_file = layer(from);
                  return of_file.is_sparse() ? of_file.sparse.dense() : of_file.weight.dense();
                });
    made.int8 = [path, name = name, layer](const io::SafeTensors& from) {
      try {
        compress::Int8Layer of_file = layer(from);
        of_file.input.check();
        return of_file;
      } catch (const Error& e) {
        raise<FileError>("[weights] {}: {} is damaged: {}", path, name, e.what());
      }
    };
  }
}

/// Names `part` of `of` in the tensors of a file.
void put(io::TensorMap& tensors, const io::TensorMap& dense, const std::string& of,
         const char* part, const Tensor& t) {
  BRIM_CHECK(!dense.contains(of + part), ValueError,
             "[weights] {} is a tensor, so {} cannot be stored so; rename it", of + part, of);
  tensors[of + part] = t;
}

/// Names the parts of SparseWeight or SparseInt8Weight, and says in `entry` what they are of.
template <class Weight>
void put_sparse(io::TensorMap& tensors, const io::TensorMap& dense, const std::string& name,
                const Weight& w, nlohmann::json& entry) {
  put(tensors, dense, name, ".values", w.values);
  put(tensors, dense, name, ".columns", w.columns);
  put(tensors, dense, name, ".starts", w.starts);
  if (w.outputs.defined()) put(tensors, dense, name, ".outputs", w.outputs);
  entry["shape"] = std::vector<int64_t>(w.shape.begin(), w.shape.end());
  entry["vector"] = w.vector;
  entry["permuted"] = w.outputs.defined();
}

}  // namespace

std::map<std::string, Encoded> encoded_weights(const io::SafeTensors& file,
                                               const std::string& path) {
  std::map<std::string, Encoded> all;
  find_sparse(file, path, all);
  find_int8(file, path, all);
  uint64_t stored = 0, dense = 0;
  for (const std::string& name : file.names()) stored += file.info(name).bytes;
  for (const auto& [name, weight] : all) {
    dense += weight.info.bytes;
    BRIM_CHECK(!file.contains(name), FileError,
               "[weights] {} holds {} twice, dense and encoded; the file is damaged", path, name);
    for (const std::string& part : weight.parts) (void)file.info(part);  // throws if it is missing
  }
  BRIM_CHECK(dense <= kMaxGrowth * (stored + 65536), FileError,
             "[weights] {}: its encoded weights say that they are {} bytes, and it holds {}; the "
             "file is damaged",
             path, dense, stored);
  return all;
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
        put_sparse(tensors, dense, name, w, index[name]);
        continue;
      }
    }
    tensors[name] = tensor;
  }
  metadata.erase(kSparseKey);
  if (!index.empty()) metadata[kSparseKey] = index.dump();
  return tensors;
}

io::TensorMap int8_tensors(const io::TensorMap& dense, const compress::Int8Layers& layers,
                           io::Metadata& metadata) {
  io::TensorMap tensors = dense;
  auto index = nlohmann::json::object();
  for (const auto& [name, layer] : layers) {
    BRIM_CHECK(tensors.erase(name) == 1, ValueError,
               "[weights] {} is to be stored in integers, and is no tensor of the network", name);
    auto& entry = index[name] = {{"scale", layer.input.scale},
                                 {"zero_point", layer.input.zero_point},
                                 {"corrected", layer.correction().defined()}};
    if (layer.is_sparse()) {
      put_sparse(tensors, dense, name, layer.sparse, entry);
      put(tensors, dense, name, ".scales", layer.sparse.scales);
    } else {
      put(tensors, dense, name, ".values", layer.weight.values);
      put(tensors, dense, name, ".scales", layer.weight.scales);
    }
    if (layer.correction().defined()) put(tensors, dense, name, ".correction", layer.correction());
  }
  metadata.erase(kInt8Key);
  if (!index.empty()) metadata[kInt8Key] = index.dump();
  return tensors;
}

}  // namespace brim::train
