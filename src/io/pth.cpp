// Entries of the zip, all in one folder: data.pkl (the pickle), data/KEY (the storages), version,
// byteorder; others are for PyTorch's own use.
#include <brim/io/pth.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/check.h"
#include "diag/span.h"
#include "io/atomic_file.h"
#include "io/input_bytes.h"
#include "io/pickle.h"
#include "io/text.h"
#include "io/zip_reader.h"
#include "io/zip_writer.h"

namespace brim::io {
namespace {

/// A hundred thousand tensors take less; objects built from it take a multiple of it.
constexpr uint64_t kMaxPickle = 16 << 20;

/// Tells files of other kinds apart before the zip reader calls them damaged.
void check_magic(const InputBytes& input) {
  char magic[4] = {};
  BRIM_CHECK(input.size() >= sizeof magic, FileError,
             "[pth] {} holds {} bytes; expected a file that torch.save wrote", input.path(),
             input.size());
  input.read(magic, sizeof magic, 0);
  if (std::string_view(magic, 4) == "PK\3\4") return;
  BRIM_CHECK(magic[0] != '\x80', FileError,
             "[pth] {} is a bare pickle, as PyTorch wrote it before 1.6; save it again with "
             "torch.save of PyTorch 1.6 or newer",
             input.path());
  raise<FileError>(
      "[pth] {} is no zip file; expected a file that torch.save of PyTorch 1.6 or "
      "newer wrote",
      input.path());
}

}  // namespace

struct Pth::State {
  explicit State(InputBytes bytes) : input(std::move(bytes)), zip(checked(input)) {
    find_folder();
    const std::string order = text_of("byteorder", 16);
    BRIM_CHECK(order.empty() || order == "little", FileError,
               "[pth] {}: its byte order is '{}'; save it again on a little-endian machine",
               input.path(), shortened(order));
    const std::string pickle = text_of("data.pkl", kMaxPickle);
    PickledState pickled = parse_pickle(pickle, input.path());
    for (const PickledStorage& s : pickled.storages) storages.push_back({s, find_storage(s)});
    for (PickledTensor& t : pickled.tensors) {
      const uint64_t size = t.type->bytes;
      names.push_back(t.name);
      infos[t.name] = {
          .dtype_name = std::string(t.type->name),
          .dtype = t.type->dtype,
          .shape = t.shape,
          .offset = storages[t.storage].second->offset + static_cast<uint64_t>(t.offset) * size,
          .bytes = static_cast<uint64_t>(t.shape.numel()) * size};
      tensors.emplace(names.back(), std::move(t));
    }
  }

  static const InputBytes& checked(const InputBytes& input) {
    check_magic(input);
    return input;
  }

  void find_folder() {
    for (const auto& [name, entry] : zip.entries()) {
      const size_t slash = name.find('/');
      if (slash != std::string::npos && name.substr(slash) == "/data.pkl") {
        BRIM_CHECK(folder.empty(), FileError,
                   "[pth] {}: '{}data.pkl' and '{}' are both there; the file is damaged",
                   input.path(), shortened(folder), shortened(name));
        folder = name.substr(0, slash + 1);
      }
    }
    BRIM_CHECK(!folder.empty(), FileError,
               "[pth] {} is a zip file without FOLDER/data.pkl; expected one that torch.save wrote",
               input.path());
    BRIM_CHECK(!zip.entries().contains(folder + "constants.pkl"), FileError,
               "[pth] {} is a TorchScript program; save its weights: "
               "torch.save(torch.jit.load(path).state_dict(), ...)",
               input.path());
  }

  /// An entry's bytes; empty when there is none.
  std::string text_of(const std::string& name, uint64_t limit) const {
    const auto it = zip.entries().find(folder + name);
    if (it == zip.entries().end()) return "";
    BRIM_CHECK(it->second.bytes <= limit, FileError,
               "[pth] {}: its {} has {} bytes, above the limit of {}; this is no file of weights",
               input.path(), name, it->second.bytes, limit);
    std::string text(it->second.bytes, '\0');
    zip.read(it->first, it->second, text.data());
    return text;
  }

  const ZipEntry* find_storage(const PickledStorage& storage) const {
    const auto it = zip.entries().find(folder + "data/" + storage.key);
    BRIM_CHECK(it != zip.entries().end(), FileError,
               "[pth] {}: the storage '{}' has no entry data/{}; the file is damaged", input.path(),
               shortened(storage.key), shortened(storage.key));
    // What is less than an element may follow the last: PyTorch lets tensors view bytes.
    const uint64_t whole = it->second.bytes / storage.type->bytes;
    BRIM_CHECK(whole == static_cast<uint64_t>(storage.count), FileError,
               "[pth] {}: the storage '{}' should hold {} elements of {} bytes but holds {} bytes; "
               "the file is damaged",
               input.path(), shortened(storage.key), storage.count, storage.type->bytes,
               it->second.bytes);
    return &it->second;
  }

  const PickledTensor& tensor(const std::string& name) const {
    const auto it = tensors.find(name);
    BRIM_CHECK(it != tensors.end(), FileError, "[pth] {} has no tensor '{}' among its {}",
               input.path(), shortened(name), names.size());
    return it->second;
  }

  /// The whole storage that `t` views, as a row of elements on `device`.
  Tensor read_storage(const PickledTensor& t, Device device) const {
    const auto& [storage, entry] = storages[t.storage];
    BRIM_CHECK(t.type->dtype, FileError,
               "[pth] {}: tensor '{}' is a {}, which brim has no dtype for; convert it in PyTorch",
               input.path(), shortened(t.name), t.type->name);
    // Rounded up, for what may follow the last whole element; no tensor reaches it.
    const auto count = static_cast<int64_t>((entry->bytes + t.type->bytes - 1) / t.type->bytes);
    Tensor x = Tensor::empty({count}, *t.type->dtype, Device::cpu());
    zip.read("data/" + storage.key, *entry, x.raw());
    if (x.dtype() == bool_) {
      const auto* values = static_cast<const uint8_t*>(x.raw());
      BRIM_CHECK(std::all_of(values, values + count, [](uint8_t v) { return v <= 1; }), FileError,
                 "[pth] {}: tensor '{}' is bool but its storage holds bytes other than 0 and 1; "
                 "the file is damaged",
                 input.path(), shortened(t.name));
    }
    return x.to(device);
  }

  InputBytes input;
  ZipReader zip;
  std::string folder;
  std::vector<std::pair<PickledStorage, const ZipEntry*>> storages;
  std::vector<std::string> names;
  std::unordered_map<std::string, TensorInfo> infos;
  std::unordered_map<std::string, PickledTensor> tensors;
};

Pth::Pth(const std::string& path)
    : state_([&] {
        const diag::Scope scope("load", diag::Cause::file_read);
        return std::make_unique<State>(InputBytes(path, "pth", "a readable .pth or .pt file"));
      }()) {}
Pth::Pth(std::span<const uint8_t> bytes, const std::string& name)
    : state_(std::make_unique<State>(InputBytes(bytes, name))) {}
Pth::~Pth() = default;
Pth::Pth(Pth&&) noexcept = default;
Pth& Pth::operator=(Pth&&) noexcept = default;

const std::vector<std::string>& Pth::names() const { return state_->names; }
bool Pth::contains(const std::string& name) const { return state_->infos.contains(name); }
const TensorInfo& Pth::info(const std::string& name) const {
  (void)state_->tensor(name);
  return state_->infos.at(name);
}

Tensor Pth::load(const std::string& name, Device device) const {
  const diag::Scope scope("load", diag::Cause::file_read);
  const PickledTensor& t = state_->tensor(name);
  return state_->read_storage(t, device).alias(t.shape, t.strides, t.offset);
}

TensorMap Pth::load_all(Device device) const {
  const diag::Scope scope("load", diag::Cause::file_read);
  TensorMap tensors;
  std::map<std::pair<size_t, const ElementType*>, Tensor> storages;
  for (const std::string& name : names()) {
    const PickledTensor& t = state_->tensor(name);
    Tensor& storage = storages[{t.storage, t.type}];
    if (!storage.defined()) storage = state_->read_storage(t, device);
    tensors.emplace(name, storage.alias(t.shape, t.strides, t.offset));
  }
  return tensors;
}

TensorMap load_pth(const std::string& path, Device device) {
  const diag::Scope scope("load", diag::Cause::file_read);
  return Pth(path).load_all(device);
}

namespace {

void put_text(std::string& out, std::string_view text) {
  const auto length = static_cast<uint32_t>(text.size());
  out += 'X';
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  out += text;
}

void put_integer(std::string& out, int64_t value) {
  const auto narrow = static_cast<int32_t>(value);
  if (narrow == value) {
    out += 'J';
    out.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  } else {
    out += "\x8a\x08";
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
}

void put_integers(std::string& out, const Shape& values) {
  out += '(';
  for (const int64_t value : values) put_integer(out, value);
  out += 't';
}

/// An OrderedDict of tensors as protocol 2 writes it; the i-th has the storage `i`.
std::string pickle_of(const TensorMap& tensors) {
  constexpr std::string_view kOrderedDict = "ccollections\nOrderedDict\n)R";
  std::string out = "\x80\x02";
  out += kOrderedDict;
  out += '(';
  size_t key = 0;
  for (const auto& [name, x] : tensors) {
    put_text(out, name);
    const ElementType& type = element_type(x.dtype());
    out += fmt::format("ctorch._utils\n_rebuild_tensor_v{}\n((", type.has_class() ? 2 : 3);
    put_text(out, "storage");
    out += type.has_class() ? fmt::format("ctorch\n{}\n", type.name)
                            : "ctorch.storage\nUntypedStorage\n";
    put_text(out, std::to_string(key++));
    put_text(out, "cpu");
    put_integer(out, type.has_class() ? x.numel() : x.numel() * static_cast<int64_t>(type.bytes));
    out += "tQ";
    put_integer(out, 0);
    put_integers(out, x.shape());
    put_integers(out, contiguous_strides(x.shape()));
    out += '\x89';  // requires_grad: a state dict holds values
    out += kOrderedDict;
    if (!type.has_class()) out += fmt::format("ctorch\n{}\n", type.name);
    out += "tR";
  }
  return out + "u.";
}

}  // namespace

void save_pth(const std::string& path, const TensorMap& tensors) {
  const diag::Scope scope("save", diag::Cause::file_write);
  for (const auto& [name, x] : tensors) {
    BRIM_CHECK(x.defined(), ValueError, "[pth] {}: tensor '{}' is undefined", path,
               shortened(name));
    try {
      (void)nlohmann::json(name).dump();
    } catch (const nlohmann::json::exception&) {
      raise<ValueError>("[pth] {}: the name '{}' is not UTF-8; rename the tensor", path,
                        shortened(name));
    }
  }
  const std::string pickle = pickle_of(tensors);
  BRIM_CHECK(pickle.size() <= kMaxPickle, ValueError,
             "[pth] {}: names and shapes of {} tensors take {} bytes, above the limit of {}", path,
             tensors.size(), pickle.size(), kMaxPickle);

  AtomicFile file(path);
  ZipWriter zip(file);
  zip.add("archive/data.pkl", pickle);
  zip.add("archive/byteorder", "little");
  size_t key = 0;
  for (const auto& [name, x] : tensors) {
    const Tensor host = x.detach().to(Device::cpu()).contiguous();
    zip.add(fmt::format("archive/data/{}", key++), host.raw(),
            static_cast<size_t>(host.numel()) * size_of(host.dtype()));
  }
  zip.add("archive/version", "3\n");
  zip.finish();
  file.commit();
}

}  // namespace brim::io
