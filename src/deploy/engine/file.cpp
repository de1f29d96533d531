// Tables one after the other, then the samples, the weights, and the text that all name.
#include "deploy/engine/file.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "core/hash.h"
#include "rt/format.h"

namespace brim::deploy {
namespace {

class Writer {
 public:
  Writer() : bytes_(sizeof(rt::FileHeader), '\0') {}

  template <class T>
  rt::Range table(const std::vector<T>& records) {
    align(alignof(uint64_t));
    const rt::Range range = {bytes_.size(), records.size()};
    if (!records.empty())
      bytes_.append(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(T));
    return range;
  }
  rt::Range blob(const std::string& blob, size_t alignment) {
    align(alignment);
    const rt::Range range = {bytes_.size(), blob.size()};
    bytes_ += blob;
    return range;
  }
  /// Where a string begins among the others.
  uint32_t text(const std::string& text) {
    const auto [known, is_new] = texts_.try_emplace(text, static_cast<uint32_t>(text_.size()));
    if (is_new) text_.append(text.c_str(), text.size() + 1);
    return known->second;
  }
  std::string finish(rt::FileHeader header) && {
    header.text = blob(text_, 1);
    header.bytes = bytes_.size();
    header.hash = xxh64(bytes_.data() + sizeof header, bytes_.size() - sizeof header);
    std::memcpy(bytes_.data(), &header, sizeof header);
    return std::move(bytes_);
  }

 private:
  void align(size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  }

  std::string bytes_;
  std::string text_;
  std::unordered_map<std::string, uint32_t> texts_;
};

/// "layer1.0.conv1: convolution"
std::string label_of(const ProgramStep& s) {
  return (s.module.empty() ? "" : s.module + ": ") + std::string(name_of(s.op));
}

rt::ProgramRecord written(Writer& to, const EngineProgram& program, const EngineFile& file) {
  rt::ProgramRecord record{};
  record.batch = program.batch;
  record.pass = program.pass;
  record.arena_bytes = program.arena_bytes;
  std::vector<rt::ValueRecord> values;
  for (const ProgramValue& v : program.values) {
    rt::ValueRecord r{};
    r.dtype = v.dtype;
    r.rank = static_cast<uint8_t>(v.dims.size());
    r.place = v.place;
    std::ranges::copy(v.dims, r.dims);
    r.at = v.at;
    values.push_back(r);
  }
  std::vector<rt::StepRecord> steps;
  std::vector<uint32_t> ids;
  std::vector<int64_t> words;
  for (const ProgramStep& s : program.steps) {
    steps.push_back({.op = static_cast<uint32_t>(s.op),
                     .name = to.text(label_of(s)),
                     .first_id = static_cast<uint32_t>(ids.size()),
                     .inputs = static_cast<uint16_t>(s.inputs.size()),
                     .outputs = static_cast<uint16_t>(s.outputs.size()),
                     .first_word = static_cast<uint32_t>(words.size()),
                     .words = static_cast<uint32_t>(s.words.size())});
    ids.insert(ids.end(), s.inputs.begin(), s.inputs.end());
    ids.insert(ids.end(), s.outputs.begin(), s.outputs.end());
    words.insert(words.end(), s.words.begin(), s.words.end());
  }
  const auto ports = [&](const std::vector<uint32_t>& of, const std::vector<std::string>& names) {
    std::vector<rt::PortRecord> records;
    for (size_t i = 0; i < of.size(); ++i) records.push_back({to.text(names[i]), of[i]});
    return to.table(records);
  };
  record.values = to.table(values);
  record.steps = to.table(steps);
  record.ids = to.table(ids);
  record.words = to.table(words);
  record.inputs = ports(program.inputs, file.inputs);
  record.outputs = ports(program.outputs, file.outputs);
  return record;
}

}  // namespace

std::string bytes_of(const EngineFile& file) {
  Writer to;
  rt::FileHeader header{};
  std::memcpy(header.magic, rt::kMagic, sizeof rt::kMagic);
  header.byte_order = rt::kByteOrder;
  header.format = rt::kFormat;
  std::vector<rt::MetadataRecord> metadata;
  for (const auto& [key, value] : file.metadata) metadata.push_back({to.text(key), to.text(value)});
  std::vector<uint32_t> labels;
  for (const std::string& label : file.labels) labels.push_back(to.text(label));
  std::vector<rt::ProgramRecord> programs;
  for (const EngineProgram& program : file.programs) programs.push_back(written(to, program, file));
  header.metadata = to.table(metadata);
  header.labels = to.table(labels);
  header.programs = to.table(programs);
  std::vector<rt::ProofRecord> proof;
  for (const ProofTensor& tensor : file.proof) {
    const rt::Range range = to.blob(tensor, rt::kAlignment);
    proof.push_back({range.at, range.count});
  }
  header.proof = to.table(proof);
  header.proof_samples = file.proof_samples;
  header.tolerance = file.tolerance;
  header.weights = to.blob(file.weights->bytes(), rt::kAlignment);
  return std::move(to).finish(header);
}

}  // namespace brim::deploy
