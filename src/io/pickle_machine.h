// The machine that a pickle is a program for, as far as data need it. It calls and imports nothing:
// what names, storages and calls stand for is left to a child, which knows a short list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace brim::io {

class PickleMachine {
 public:
  /// Both must outlive the machine; `path` is for messages.
  PickleMachine(std::string_view pickle, const std::string& path) : path_(path), all_(pickle) {}
  PickleMachine(const PickleMachine&) = delete;
  PickleMachine& operator=(const PickleMachine&) = delete;
  virtual ~PickleMachine() = default;

 protected:
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
    dtype,
    ordered_dict,       // the class
    rebuild_tensor,     // the function, of a version
    rebuild_parameter,  // the function
    storage,
    untyped_storage,
    tensor
  };

  using Ref = uint32_t;  // index of an object

  struct Object {
    Kind kind = Kind::none;
    bool only_tensors = true;  // of a dict: strings to tensors
    int64_t number = 0;        // an integer's value, a version, the index of what it stands for
    std::string_view text;
    std::vector<Ref> items;  // of a dict: key, value, key, value, ...
  };

  /// Carries out the pickle; returns what it leaves. Throws FileError.
  Ref run();

  /// Each pushes one object, or refuses.
  virtual void push_global(std::string_view module, std::string_view name) = 0;
  virtual void push_persistent(Ref id) = 0;
  virtual void call(Ref function, Ref arguments) = 0;

  void push(Ref ref) { stack_.push_back(ref); }
  Object& push(Kind kind, int64_t number = 0, std::string_view text = {});
  const Object& at(Ref ref) const { return objects_[ref]; }
  /// "a list".
  const char* kind_name(Ref ref) const;

  [[noreturn]] void fail(std::string_view what) const;      // damage
  [[noreturn]] void refuse(const std::string& what) const;  // what is whole but not on the list

  const std::string& path_;

 private:
  std::string_view take(uint64_t bytes);
  template <class T>
  T take_number();
  uint8_t take_byte() { return take_number<uint8_t>(); }
  std::string_view take_line();

  size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  Ref top() const;
  Ref pop();
  std::vector<Ref> pop_items(size_t count);
  std::vector<Ref> pop_to_mark();

  void make_tuple(std::vector<Ref> items) { push(Kind::tuple).items = std::move(items); }
  void add_to_list(const std::vector<Ref>& items);
  void add_to_dict(const std::vector<Ref>& items);
  Ref remembered(uint32_t index) const;
  void push_long(std::string_view bytes);
  void push_decimal(std::string_view text, uint8_t op);
  bool step(uint8_t op);

  std::string_view all_;
  size_t at_ = 0, op_at_ = 0;
  bool has_protocol_ = false;  // protocols 0 and 1 do not name themselves
  std::vector<Object> objects_;
  std::vector<Ref> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, Ref> memo_;
};

}  // namespace brim::io
