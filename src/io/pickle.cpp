// What a state dict is made of: the names that a pickle of PyTorch's may hold, its storages and its
// tensors.
#include "io/pickle.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "core/check.h"
#include "io/pickle_machine.h"
#include "io/text.h"

namespace brim::io {
namespace {

/// In the order of DType, then those that brim has not got, and last the storage of bytes.
constexpr auto kElementTypes =
    std::to_array<ElementType>({{"FloatStorage", 4, f32},
                                {"DoubleStorage", 8, f64},
                                {"HalfStorage", 2, f16},
                                {"BFloat16Storage", 2, bf16},
                                {"LongStorage", 8, i64},
                                {"IntStorage", 4, i32},
                                {"CharStorage", 1, i8},
                                {"ByteStorage", 1, u8},
                                {"BoolStorage", 1, bool_},
                                {"ShortStorage", 2, DType::i16},
                                {"uint16", 2, DType::u16},
                                {"uint32", 4, DType::u32},
                                {"uint64", 8, DType::u64},
                                {"ComplexFloatStorage", 8, DType::c64},
                                {"ComplexDoubleStorage", 16, DType::c128},
                                {"float8_e4m3fn", 1, DType::f8_e4m3fn},
                                {"float8_e5m2", 1, DType::f8_e5m2},
                                {"float8_e4m3fnuz", 1, DType::f8_e4m3fnuz},
                                {"float8_e5m2fnuz", 1, DType::f8_e5m2fnuz},
                                {"float8_e8m0fnu", 1, DType::f8_e8m0fnu},
                                {"float4_e2m1fn_x2", 1, {}},
                                {"complex32", 4, {}},
                                {"UntypedStorage", 1, {}}});
constexpr const ElementType& kUntyped = kElementTypes.back();

class StateDictReader final : public PickleMachine {
 public:
  using PickleMachine::PickleMachine;

  PickledState read() {
    collect(run());
    return std::move(state_);
  }

 private:
  void push_global(std::string_view module, std::string_view name) override {
    if (module == "collections" && name == "OrderedDict") {
      push(Kind::ordered_dict);
      return;
    }
    if (module == "torch._utils" &&
        (name == "_rebuild_tensor_v2" || name == "_rebuild_tensor_v3")) {
      push(Kind::rebuild_tensor, name.back() - '0');
      return;
    }
    if (module == "torch._utils" && name == "_rebuild_parameter") {
      push(Kind::rebuild_parameter);
      return;
    }
    for (size_t i = 0; i < kElementTypes.size(); ++i) {
      const ElementType& type = kElementTypes[i];
      if (type.name != name || module != (&type == &kUntyped ? "torch.storage" : "torch")) continue;
      push(type.has_class() ? Kind::storage_type : Kind::dtype, static_cast<int64_t>(i));
      return;
    }
    refuse(fmt::format("the name '{}.{}'", shortened(module), shortened(name)));
  }

  /// ("storage", type, key, location, count); the location is where it was, not where it goes.
  void push_persistent(Ref id) override {
    const std::vector<Ref>& items = at(id).items;
    const auto is = [&](size_t i, Kind kind) { return at(items[i]).kind == kind; };
    if (at(id).kind != Kind::tuple || items.size() != 5 || !is(0, Kind::text) ||
        at(items[0]).text != "storage" || !is(1, Kind::storage_type) || !is(2, Kind::text) ||
        !is(3, Kind::text) || !is(4, Kind::integer) || at(items[4]).number < 0)
      fail("a reference to no storage");
    const std::string_view key = at(items[2]).text;
    // torch.save counts them. A long one could be remembered and hashed for every tensor.
    constexpr size_t kMaxKey = 255;
    if (key.size() > kMaxKey) fail(fmt::format("a storage's key of {} bytes", key.size()));
    const ElementType* type = &kElementTypes[static_cast<size_t>(at(items[1]).number)];
    const bool untyped = type == &kUntyped;
    // PyTorch takes a storage of bytes for one of uint8: both may name the same.
    if (untyped) type = &element_type(u8);
    const int64_t count = at(items[4]).number;
    const auto [it, fresh] = storages_.emplace(key, state_.storages.size());
    if (fresh) state_.storages.push_back({type, std::string(key), count});
    const PickledStorage& known = state_.storages[it->second];
    if (known.type != type || known.count != count)
      fail(fmt::format("the storage '{}' with a second type or size", shortened(key)));
    push(untyped ? Kind::untyped_storage : Kind::storage, static_cast<int64_t>(it->second));
  }

  void call(Ref callee, Ref arguments) override {
    const Kind function = at(callee).kind;
    const std::vector<Ref>& items = at(arguments).items;
    if (at(arguments).kind != Kind::tuple) fail("a call without a tuple of arguments");
    const auto is = [&](size_t i, Kind kind) { return at(items[i]).kind == kind; };
    if (function == Kind::ordered_dict) {
      if (!items.empty()) fail("an OrderedDict made from something");
      push(Kind::dict);
    } else if (function == Kind::rebuild_parameter) {
      if (items.size() != 3 || !is(0, Kind::tensor) || !is(1, Kind::boolean) || !is(2, Kind::dict))
        fail("a parameter of something else than a tensor");
      push(items[0]);
    } else if (function == Kind::rebuild_tensor) {
      // Version 3 is of storages of bytes, and has the dtype before the metadata.
      const bool typed = at(callee).number == 2;
      const size_t most = typed ? 7 : 8;
      if (items.size() + 1 < most || items.size() > most ||
          !is(0, typed ? Kind::storage : Kind::untyped_storage) || !is(1, Kind::integer) ||
          !is(2, Kind::tuple) || !is(3, Kind::tuple) || !is(4, Kind::boolean) ||
          !is(5, Kind::dict) || (!typed && !is(6, Kind::dtype)))
        fail("a tensor with other than a storage, offset, sizes, strides, a flag, hooks and dtype");
      // A bit in the metadata says that the tensor is the negative or the conjugate of what is
      // stored.
      if (items.size() == most && (!is(most - 1, Kind::dict) || !at(items.back()).items.empty()))
        refuse(
            "a tensor with its negation or conjugation put off (call resolve_neg() or "
            "resolve_conj())");
      const auto storage = static_cast<size_t>(at(items[0]).number);
      const ElementType* type = typed ? state_.storages[storage].type
                                      : &kElementTypes[static_cast<size_t>(at(items[6]).number)];
      push_tensor(storage, type, at(items[1]).number, integers(items[2]), integers(items[3]));
    } else {
      refuse(fmt::format("a call of {}", kind_name(callee)));
    }
  }

  Shape integers(Ref tuple) const {
    Shape shape;
    for (const Ref item : at(tuple).items) {
      if (at(item).kind != Kind::integer || at(item).number < 0)
        fail("a size or stride that is no natural number");
      BRIM_CHECK(shape.rank() < kMaxRank, FileError,
                 "[pth] {}: a tensor has more than {} axes, which brim cannot hold", path_,
                 kMaxRank);
      shape.push_back(at(item).number);
    }
    return shape;
  }

  void push_tensor(size_t storage, const ElementType* type, int64_t offset, const Shape& shape,
                   const Strides& strides) {
    int64_t count = state_.storages[storage].count;
    if (state_.storages[storage].type != type) count /= static_cast<int64_t>(type->bytes);
    if (shape.rank() != strides.rank() || offset < 0) fail("a tensor with impossible strides");
    bool overflow = false, empty = false;
    int64_t numel = 1, last = offset;
    for (int i = 0; i < shape.rank(); ++i) {
      empty |= shape[i] == 0;
      overflow |= __builtin_mul_overflow(numel, std::max<int64_t>(shape[i], 1), &numel);
      int64_t way = 0;
      overflow |= __builtin_mul_overflow(std::max<int64_t>(shape[i], 1) - 1, strides[i], &way);
      overflow |= __builtin_add_overflow(last, way, &last);
    }
    BRIM_CHECK(!overflow && (empty || last < count), FileError,
               "[pth] {}: a tensor {} with strides {} at {} leaves its storage of {} elements; the "
               "file is damaged",
               path_, shape.str(), strides.str(), offset, count);
    // Otherwise a small file could ask for any amount of memory.
    BRIM_CHECK(empty || numel <= count, FileError,
               "[pth] {}: a tensor {} is expanded from a storage of {} elements; call contiguous() "
               "on it before torch.save",
               path_, shape.str(), count);
    push(Kind::tensor, static_cast<int64_t>(tensors_.size()));
    tensors_.push_back({.storage = storage,
                        .type = type,
                        .offset = empty ? 0 : offset,
                        .shape = shape,
                        .strides = empty ? contiguous_strides(shape) : strides});
  }

  // --- the result
  std::string text_of(Ref ref) const {
    return at(ref).kind == Kind::text ? fmt::format("'{}'", shortened(at(ref).text))
                                      : std::string(kind_name(ref));
  }

  void collect(Ref root) {
    if (at(root).kind != Kind::dict)
      raise<FileError>("[pth] {} holds {} instead of a dict of tensors; save model.state_dict()",
                       path_, kind_name(root));
    const std::vector<Ref>& entries = at(root).items;
    const bool has_tensor = std::any_of(entries.begin(), entries.end(),
                                        [&](Ref ref) { return at(ref).kind == Kind::tensor; });
    if (!has_tensor && !entries.empty()) root = only_state_in(entries);
    const std::vector<Ref>& items = at(root).items;
    std::set<std::string_view> names;
    for (size_t i = 0; i < items.size(); i += 2) {
      const Object &key = at(items[i]), &value = at(items[i + 1]);
      BRIM_CHECK(key.kind == Kind::text, FileError,
                 "[pth] {}: {} is a key of the state dict; expected the names of tensors", path_,
                 kind_name(items[i]));
      BRIM_CHECK(value.kind == Kind::tensor, FileError,
                 "[pth] {}: '{}' is {}, not a tensor; save model.state_dict() alone", path_,
                 shortened(key.text), kind_name(items[i + 1]));
      BRIM_CHECK(names.insert(key.text).second, FileError,
                 "[pth] {}: '{}' appears twice; the file is damaged", path_, shortened(key.text));
      PickledTensor tensor = tensors_[static_cast<size_t>(value.number)];
      tensor.name = key.text;
      state_.tensors.push_back(std::move(tensor));
    }
  }

  /// Training scripts save {"epoch": 3, "state_dict": {...}, "optimizer": {...}}.
  Ref only_state_in(const std::vector<Ref>& entries) const {
    size_t found = entries.size();
    for (size_t i = 0; i < entries.size(); i += 2) {
      const Object& value = at(entries[i + 1]);
      if (value.kind != Kind::dict || value.items.empty() || !value.only_tensors) continue;
      BRIM_CHECK(found == entries.size(), FileError,
                 "[pth] {} holds more than one state dict, {} and {}; save one of them alone",
                 path_, text_of(entries[found]), text_of(entries[i]));
      found = i;
    }
    if (found < entries.size()) return entries[found + 1];
    std::string keys;
    for (size_t i = 0; i < std::min<size_t>(entries.size(), 10); i += 2)
      keys.append(keys.empty() ? "" : ", ").append(text_of(entries[i]));
    raise<FileError>("[pth] {} holds no dict of tensors, but {}{}; save model.state_dict()", path_,
                     keys, entries.size() > 10 ? ", ..." : "");
  }

  std::unordered_map<std::string_view, size_t> storages_;
  std::vector<PickledTensor> tensors_;
  PickledState state_;
};

}  // namespace

const ElementType& element_type(DType dtype) { return kElementTypes[static_cast<size_t>(dtype)]; }

PickledState parse_pickle(std::string_view pickle, const std::string& path) {
  static_assert([] {
    for (int i = 0; i < kDTypeCount; ++i)
      if (kElementTypes[static_cast<size_t>(i)].dtype != static_cast<DType>(i)) return false;
    return true;
  }());
  return StateDictReader(pickle, path).read();
}

}  // namespace brim::io
