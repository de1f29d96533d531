// Ref<T>: a shared pointer whose count lives in the object, so a handle is one word and making one
// costs one allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace brim {

/// Base of objects owned through Ref. The object deletes itself with its last handle.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }  ///< one handle more
  /// Retains unless the last handle is gone already.
  bool try_retain() const {
    uint32_t count = count_.load(std::memory_order_relaxed);
    while (count != 0)
      if (count_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) return true;
    return false;
  }
  /// True when the caller gave back the last handle and must delete the object.
  bool release() const { return count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  /// Handles by now; others may come and go meanwhile.
  uint32_t use_count() const { return count_.load(std::memory_order_acquire); }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> count_{0};
};

/// A handle of a RefCounted object, which lives as long as one of its handles.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  ///< of nothing
  /// Takes part in owning the object.
  explicit Ref(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  ///@{
  /// Another handle of the same object.
  Ref(const Ref& other) : Ref(other.object_) {}
  /// Takes the handle over.
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  Ref(const Ref<U>& other) : Ref(static_cast<T*>(other.get())) {}
  ///@}
  /// Handle of the other's object from now on.
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { reset(); }

  /// Gives the handle up.
  void reset() {
    if (T* object = std::exchange(object_, nullptr); object && object->release()) delete object;
  }
  T* get() const { return object_; }  ///< the object, or null
  ///@{
  /// The object, which must be there.
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  ///@}
  explicit operator bool() const { return object_ != nullptr; }  ///< whether there is an object
  /// Whether both are of one object.
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

/// A new object, made of `args`, and its first handle.
template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace brim
