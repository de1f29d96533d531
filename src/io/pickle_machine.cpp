// Opcodes as CPython's pickletools documents them. Objects live in one list and name each other by
// index, so that a pickle which contains itself is harmless, and each opcode makes at most one
// object, so that memory stays in proportion to the pickle.
#include "io/pickle_machine.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace brim::io {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

const char* PickleMachine::kind_name(Ref ref) const {
  static constexpr const char* kName[] = {"None",       "a bool",    "an int",    "a float",
                                          "a string",   "a tuple",   "a list",    "a dict",
                                          "a class",    "a dtype",   "a class",   "a function",
                                          "a function", "a storage", "a storage", "a tensor"};
  return kName[static_cast<size_t>(objects_[ref].kind)];
}

PickleMachine::Ref PickleMachine::run() {
  while (!step(take_byte())) {
  }
  return pop();
}

void PickleMachine::fail(std::string_view what) const {
  raise<FileError>("[pth] {}: {} at byte {} of data.pkl; the file is damaged", path_, what, op_at_);
}

void PickleMachine::refuse(const std::string& what) const {
  raise<FileError>(
      "[pth] {} holds {}, which is never loaded; only dicts of tensors are read: save "
      "model.state_dict() alone",
      path_, what);
}

std::string_view PickleMachine::take(uint64_t bytes) {
  if (bytes > all_.size() - at_) fail("the pickle is cut off");
  const std::string_view part = all_.substr(at_, bytes);
  at_ += bytes;
  return part;
}

template <class T>
T PickleMachine::take_number() {
  T value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string_view PickleMachine::take_line() {
  const size_t end = all_.find('\n', at_);
  if (end == std::string_view::npos) fail("the pickle is cut off");
  const std::string_view line = take(end - at_);
  take(1);
  return line;
}

PickleMachine::Object& PickleMachine::push(Kind kind, int64_t number, std::string_view text) {
  objects_.push_back({.kind = kind, .number = number, .text = text});
  push(static_cast<Ref>(objects_.size() - 1));
  return objects_.back();
}

PickleMachine::Ref PickleMachine::top() const {
  if (available() == 0) fail("an opcode finds the stack empty");
  return stack_.back();
}

PickleMachine::Ref PickleMachine::pop() {
  const Ref ref = top();
  stack_.pop_back();
  return ref;
}

/// The last `count` objects.
std::vector<PickleMachine::Ref> PickleMachine::pop_items(size_t count) {
  if (available() < count) fail("an opcode finds too few objects on the stack");
  std::vector<Ref> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return items;
}

std::vector<PickleMachine::Ref> PickleMachine::pop_to_mark() {
  if (marks_.empty()) fail("an opcode finds no mark on the stack");
  std::vector<Ref> items = pop_items(available());
  marks_.pop_back();
  return items;
}

void PickleMachine::add_to_list(const std::vector<Ref>& items) {
  Object& list = objects_[top()];
  if (list.kind != Kind::list) fail("an append to what is no list");
  list.items.insert(list.items.end(), items.begin(), items.end());
}

void PickleMachine::add_to_dict(const std::vector<Ref>& items) {
  Object& dict = objects_[top()];
  if (dict.kind != Kind::dict || items.size() % 2 != 0) fail("a key and value for no dict");
  for (size_t i = 0; i < items.size(); i += 2)
    dict.only_tensors &=
        objects_[items[i]].kind == Kind::text && objects_[items[i + 1]].kind == Kind::tensor;
  dict.items.insert(dict.items.end(), items.begin(), items.end());
}

PickleMachine::Ref PickleMachine::remembered(uint32_t index) const {
  const auto it = memo_.find(index);
  if (it == memo_.end()) fail(fmt::format("the memo's missing entry {}", index));
  return it->second;
}

void PickleMachine::push_long(std::string_view bytes) {
  if (bytes.size() > 8) fail("an integer beyond 64 bits");
  const bool negative = !bytes.empty() && static_cast<int8_t>(bytes.back()) < 0;
  uint64_t value = negative ? ~uint64_t{0} : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  push(Kind::integer, static_cast<int64_t>(value));
}

/// "I00" and "I01" are False and True; "I8" is 8, and so is "L8L".
void PickleMachine::push_decimal(std::string_view text, uint8_t op) {
  if (op == 'I' && (text == "00" || text == "01")) {
    push(Kind::boolean, text == "01");
    return;
  }
  if (op == 'L' && text.ends_with('L')) text.remove_suffix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail("an integer that is none or beyond 64 bits");
  push(Kind::integer, value);
}

/// Carries out one opcode; true at the end.
bool PickleMachine::step(uint8_t op) {
  op_at_ = at_ - 1;
  switch (op) {
    case 0x80:  // PROTO
      if (const int version = take_byte(); version < 2 || version > 5)
        fail(fmt::format("the unknown pickle protocol {}", version));
      has_protocol_ = true;
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
    case 'I':  // this and the next are protocol 1's, which has no bools
    case 'L':
      push_decimal(take_line(), op);
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
      push_persistent(pop());
      break;
    case 'R': {
      const Ref arguments = pop(), function = pop();
      call(function, arguments);
      break;
    }
    case 'b': {  // the _metadata of an OrderedDict, which tells nothing about tensors
      const Ref state = pop();
      if (objects_[top()].kind != Kind::dict || objects_[state].kind != Kind::dict)
        refuse("an object with a state of its own");
      break;
    }
    default:
      BRIM_CHECK(has_protocol_ || std::string_view("pgPVSFdl").find(static_cast<char>(op)) ==
                                      std::string_view::npos,
                 FileError,
                 "[pth] {} has pickle protocol 0, whose storages PyTorch cannot read back either; "
                 "save it again without pickle_protocol=0",
                 path_);
      fail(fmt::format("the opcode 0x{:02x}, which is not on the list,", op));
  }
  return false;
}

}  // namespace brim::io
