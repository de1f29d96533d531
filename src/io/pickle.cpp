// Opcodes as CPython's pickletools documents them. Objects live in one list and name each other by
// index, so that a pickle which contains itself is harmless, and each opcode makes at most one
// object, so that memory stays in proportion to the pickle.
#include "io/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <unordered_map>

#include "core/check.h"
#include "io/text.h"

namespace brim::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

/// In the order of DType, then those that brim has not got.
constexpr std::array<StorageType, 12> kStorageTypes = {{{"FloatStorage", 4, f32},
                                                        {"DoubleStorage", 8, f64},
                                                        {"HalfStorage", 2, f16},
                                                        {"BFloat16Storage", 2, bf16},
                                                        {"LongStorage", 8, i64},
                                                        {"IntStorage", 4, i32},
                                                        {"CharStorage", 1, i8},
                                                        {"ByteStorage", 1, u8},
                                                        {"BoolStorage", 1, bool_},
                                                        {"ShortStorage", 2, {}},
                                                        {"ComplexFloatStorage", 8, {}},
                                                        {"ComplexDoubleStorage", 16, {}}}};

enum class Kind : uint8_t {
  none,
  boolean,
  integer,
  real,
  text,
  tuple,
  list,
  dict,
  storage_type,
  ordered_dict,       // the class
  rebuild_tensor,     // the function
  rebuild_parameter,  // the function
  storage,
  tensor
};

constexpr const char* kKindName[] = {"None",       "a bool",     "an int",    "a float", "a string",
                                     "a tuple",    "a list",     "a dict",    "a class", "a class",
                                     "a function", "a function", "a storage", "a tensor"};

using Ref = uint32_t;  // index of an object

struct Object {
  Kind kind = Kind::none;
  bool only_tensors = true;  // of a dict: strings to tensors
  int64_t number = 0;        // an integer's value; a storage's, tensor's or storage type's index
  std::string_view text;
  std::vector<Ref> items;  // of a dict: key, value, key, value, ...
};

class Machine {
 public:
  Machine(std::string_view pickle, const std::string& path) : all_(pickle), path_(path) {}

  PickledState run() {
    while (!step(take_byte())) {
    }
    collect(pop());
    return std::move(state_);
  }

 private:
  // --- the bytes
  [[noreturn]] void fail(std::string_view what) const {
    raise<FileError>("[pth] {}: {} at byte {} of data.pkl; the file is damaged", path_, what,
                     op_at_);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    raise<FileError>(
        "[pth] {} holds {}, which is never loaded; only dicts of tensors are read: save "
        "model.state_dict() alone",
        path_, what);
  }
  std::string_view take(uint64_t bytes) {
    if (bytes > all_.size() - at_) fail("the pickle is cut off");
    const std::string_view part = all_.substr(at_, bytes);
    at_ += bytes;
    return part;
  }
  template <class T>
  T take_number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  uint8_t take_byte() { return take_number<uint8_t>(); }
  std::string_view take_line() {
    const size_t end = all_.find('\n', at_);
    if (end == std::string_view::npos) fail("the pickle is cut off");
    const std::string_view line = take(end - at_);
    take(1);
    return line;
  }

  // --- the stack
  void push(Ref ref) { stack_.push_back(ref); }
  Object& push(Kind kind, int64_t number = 0, std::string_view text = {}) {
    objects_.push_back({.kind = kind, .number = number, .text = text});
    push(static_cast<Ref>(objects_.size() - 1));
    return objects_.back();
  }
  size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  Ref top() const {
    if (available() == 0) fail("an opcode finds the stack empty");
    return stack_.back();
  }
  Ref pop() {
    const Ref ref = top();
    stack_.pop_back();
    return ref;
  }
  /// The last `count` objects.
  std::vector<Ref> pop_items(size_t count) {
    if (available() < count) fail("an opcode finds too few objects on the stack");
    std::vector<Ref> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) fail("an opcode finds no mark on the stack");
    std::vector<Ref> items = pop_items(available());
    marks_.pop_back();
    return items;
  }

  void make_tuple(std::vector<Ref> items) { push(Kind::tuple).items = std::move(items); }
  void add_to_list(const std::vector<Ref>& items) {
    Object& list = objects_[top()];
    if (list.kind != Kind::list) fail("an append to what is no list");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }
  void add_to_dict(const std::vector<Ref>& items) {
    Object& dict = objects_[top()];
    if (dict.kind != Kind::dict || items.size() % 2 != 0) fail("a key and value for no dict");
    for (size_t i = 0; i < items.size(); i += 2)
      dict.only_tensors &=
          objects_[items[i]].kind == Kind::text && objects_[items[i + 1]].kind == Kind::tensor;
    dict.items.insert(dict.items.end(), items.begin(), items.end());
  }

  /// Carries out one opcode; true at the end.
  bool step(uint8_t op) {
    op_at_ = at_ - 1;
    switch (op) {
      case 0x80:  // PROTO
        if (const int version = take_byte(); version < 2 || version > 5)
          fail(fmt::format("the unknown pickle protocol {}", version));
        break;
      case 0x95:
        take(8);
        break;  // FRAME: only a hint for buffering
      case '.':
        return true;
      case '(':
        marks_.push_back(stack_.size());
        break;
      case 'N':
        push(Kind::none);
        break;
      case 0x88:
        push(Kind::boolean, 1);
        break;
      case 0x89:
        push(Kind::boolean, 0);
        break;
      case 'J':
        push(Kind::integer, take_number<int32_t>());
        break;
      case 'K':
        push(Kind::integer, take_byte());
        break;
      case 'M':
        push(Kind::integer, take_number<uint16_t>());
        break;
      case 0x8a:
        push_long(take(take_byte()));
        break;
      case 'G':
        take(8), push(Kind::real);
        break;
      case 'X':
        push(Kind::text, 0, take(take_number<uint32_t>()));
        break;
      case 0x8c:
        push(Kind::text, 0, take(take_byte()));
        break;
      case 0x8d:
        push(Kind::text, 0, take(take_number<uint64_t>()));
        break;
      case 'U':
        push(Kind::text, 0, take(take_byte()));
        break;  // Python 2
      case ')':
        push(Kind::tuple);
        break;
      case 't':
        make_tuple(pop_to_mark());
        break;
      case 0x85:
        make_tuple(pop_items(1));
        break;
      case 0x86:
        make_tuple(pop_items(2));
        break;
      case 0x87:
        make_tuple(pop_items(3));
        break;
      case '}':
        push(Kind::dict);
        break;
      case ']':
        push(Kind::list);
        break;
      case 'a':
        add_to_list(pop_items(1));
        break;
      case 'e':
        add_to_list(pop_to_mark());
        break;
      case 's':
        add_to_dict(pop_items(2));
        break;
      case 'u':
        add_to_dict(pop_to_mark());
        break;
      case 'q':
        memo_[take_byte()] = top();
        break;
      case 'r':
        memo_[take_number<uint32_t>()] = top();
        break;
      case 0x94:
        memo_[static_cast<uint32_t>(memo_.size())] = top();
        break;
      case 'h':
        push(remembered(take_byte()));
        break;
      case 'j':
        push(remembered(take_number<uint32_t>()));
        break;
      case 'c': {
        const std::string_view module = take_line();
        push_global(module, take_line());
        break;
      }
      case 0x93: {
        const std::vector<Ref> names = pop_items(2);
        const Object &module = objects_[names[0]], &name = objects_[names[1]];
        if (module.kind != Kind::text || name.kind != Kind::text) fail("a name that is no string");
        push_global(std::string_view(module.text), std::string_view(name.text));
        break;
      }
      case 'Q':
        push_storage(pop());
        break;
      case 'R': {
        const Ref arguments = pop(), function = pop();
        call(objects_[function].kind, function, arguments);
        break;
      }
      case 'b': {  // the _metadata of an OrderedDict, which tells nothing about tensors
        const Ref state = pop();
        if (objects_[top()].kind != Kind::dict || objects_[state].kind != Kind::dict)
          refuse("an object with a state of its own");
        break;
      }
      default:
        fail(fmt::format("the opcode 0x{:02x}, which is not on the list,", op));
    }
    return false;
  }

  Ref remembered(uint32_t index) const {
    const auto it = memo_.find(index);
    if (it == memo_.end()) fail(fmt::format("the memo's missing entry {}", index));
    return it->second;
  }

  void push_long(std::string_view bytes) {
    if (bytes.size() > 8) fail("an integer beyond 64 bits");
    uint64_t value = !bytes.empty() && bytes.back() < 0 ? ~uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    push(Kind::integer, static_cast<int64_t>(value));
  }

  void push_global(std::string_view module, std::string_view name) {
    if (module == "collections" && name == "OrderedDict") {
      push(Kind::ordered_dict);
      return;
    }
    if (module == "torch._utils" && name == "_rebuild_tensor_v2") {
      push(Kind::rebuild_tensor);
      return;
    }
    if (module == "torch._utils" && name == "_rebuild_parameter") {
      push(Kind::rebuild_parameter);
      return;
    }
    if (module == "torch")
      for (size_t i = 0; i < kStorageTypes.size(); ++i)
        if (kStorageTypes[i].name == name) {
          push(Kind::storage_type, static_cast<int64_t>(i));
          return;
        }
    refuse(fmt::format("the name '{}.{}'", shortened(module), shortened(name)));
  }

  /// ("storage", type, key, location, count); the location is where it was, not where it goes.
  void push_storage(Ref id) {
    const std::vector<Ref>& items = objects_[id].items;
    const auto is = [&](size_t i, Kind kind) { return objects_[items[i]].kind == kind; };
    if (objects_[id].kind != Kind::tuple || items.size() != 5 || !is(0, Kind::text) ||
        objects_[items[0]].text != "storage" || !is(1, Kind::storage_type) || !is(2, Kind::text) ||
        !is(3, Kind::text) || !is(4, Kind::integer) || objects_[items[4]].number < 0)
      fail("a reference to no storage");
    const std::string_view key = objects_[items[2]].text;
    // torch.save counts them. A long one could be remembered and hashed for every tensor.
    constexpr size_t kMaxKey = 255;
    if (key.size() > kMaxKey) fail(fmt::format("a storage's key of {} bytes", key.size()));
    const StorageType* type = &kStorageTypes[static_cast<size_t>(objects_[items[1]].number)];
    const int64_t count = objects_[items[4]].number;
    const auto [it, fresh] = storages_.emplace(key, state_.storages.size());
    if (fresh) state_.storages.push_back({type, std::string(key), count});
    const PickledStorage& known = state_.storages[it->second];
    if (known.type != type || known.count != count)
      fail(fmt::format("the storage '{}' with a second type or size", shortened(key)));
    push(Kind::storage, static_cast<int64_t>(it->second));
  }

  void call(Kind function, Ref callee, Ref arguments) {
    const std::vector<Ref>& items = objects_[arguments].items;
    if (objects_[arguments].kind != Kind::tuple) fail("a call without a tuple of arguments");
    const auto is = [&](size_t i, Kind kind) { return objects_[items[i]].kind == kind; };
    if (function == Kind::ordered_dict) {
      if (!items.empty()) fail("an OrderedDict made from something");
      push(Kind::dict);
    } else if (function == Kind::rebuild_parameter) {
      if (items.size() != 3 || !is(0, Kind::tensor) || !is(1, Kind::boolean) || !is(2, Kind::dict))
        fail("a parameter of something else than a tensor");
      push(items[0]);
    } else if (function == Kind::rebuild_tensor) {
      if (items.size() < 6 || items.size() > 7 || !is(0, Kind::storage) || !is(1, Kind::integer) ||
          !is(2, Kind::tuple) || !is(3, Kind::tuple) || !is(4, Kind::boolean) || !is(5, Kind::dict))
        fail("a tensor with other than a storage, offset, sizes, strides, a flag and hooks");
      // A bit in the metadata says that the tensor is the negative or the conjugate of what is
      // stored.
      if (items.size() == 7 && (!is(6, Kind::dict) || !objects_[items[6]].items.empty()))
        refuse("a tensor with its negation or conjugation put off (call resolve_neg())");
      const Ref sizes = items[2], strides = items[3];
      push_tensor(static_cast<size_t>(objects_[items[0]].number), objects_[items[1]].number,
                  integers(sizes), integers(strides));
    } else {
      refuse(fmt::format("a call of {}", kKindName[static_cast<size_t>(objects_[callee].kind)]));
    }
  }

  Shape integers(Ref tuple) const {
    Shape shape;
    for (const Ref item : objects_[tuple].items) {
      if (objects_[item].kind != Kind::integer || objects_[item].number < 0)
        fail("a size or stride that is no natural number");
      BRIM_CHECK(shape.rank() < kMaxRank, FileError,
                 "[pth] {}: a tensor has more than {} axes, which brim cannot hold", path_,
                 kMaxRank);
      shape.push_back(objects_[item].number);
    }
    return shape;
  }

  void push_tensor(size_t storage, int64_t offset, const Shape& shape, const Strides& strides) {
    const int64_t count = state_.storages[storage].count;
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
                        .offset = empty ? 0 : offset,
                        .shape = shape,
                        .strides = empty ? contiguous_strides(shape) : strides});
  }

  // --- the result
  std::string text_of(Ref ref) const {
    return objects_[ref].kind == Kind::text
               ? fmt::format("'{}'", shortened(objects_[ref].text))
               : std::string(kKindName[static_cast<size_t>(objects_[ref].kind)]);
  }

  void collect(Ref root) {
    if (objects_[root].kind != Kind::dict)
      raise<FileError>("[pth] {} holds {} instead of a dict of tensors; save model.state_dict()",
                       path_, kKindName[static_cast<size_t>(objects_[root].kind)]);
    const std::vector<Ref>& entries = objects_[root].items;
    const bool has_tensor = std::any_of(entries.begin(), entries.end(), [&](Ref ref) {
      return objects_[ref].kind == Kind::tensor;
    });
    if (!has_tensor && !entries.empty()) root = only_state_in(entries);
    const std::vector<Ref>& items = objects_[root].items;
    std::set<std::string_view> names;
    for (size_t i = 0; i < items.size(); i += 2) {
      const Object &key = objects_[items[i]], &value = objects_[items[i + 1]];
      BRIM_CHECK(key.kind == Kind::text, FileError,
                 "[pth] {}: {} is a key of the state dict; expected the names of tensors", path_,
                 kKindName[static_cast<size_t>(key.kind)]);
      BRIM_CHECK(value.kind == Kind::tensor, FileError,
                 "[pth] {}: '{}' is {}, not a tensor; save model.state_dict() alone", path_,
                 shortened(key.text), kKindName[static_cast<size_t>(value.kind)]);
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
      const Object& value = objects_[entries[i + 1]];
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

  std::string_view all_;
  const std::string& path_;
  size_t at_ = 0, op_at_ = 0;
  std::vector<Object> objects_;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, Ref> memo_;
  std::unordered_map<std::string_view, size_t> storages_;
  std::vector<PickledTensor> tensors_;
  PickledState state_;
};

}  // namespace

const StorageType& storage_type(DType dtype) { return kStorageTypes[static_cast<size_t>(dtype)]; }

PickledState parse_pickle(std::string_view pickle, const std::string& path) {
  static_assert([] {
    for (int i = 0; i < kDTypeCount; ++i)
      if (kStorageTypes[static_cast<size_t>(i)].dtype != static_cast<DType>(i)) return false;
    return true;
  }());
  return Machine(pickle, path).run();
}

}  // namespace brim::io
