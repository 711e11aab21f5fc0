// Immutable values shared by all copies, so that a copy costs a pointer whatever the size: fields
// of a request that each of its choices needs.
//
// Thread: any, as std::shared_ptr.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace outrider {

// An optional T.
template <class T>
class SharedValue {
 public:
  SharedValue() = default;
  SharedValue(T value)  // NOLINT(google-explicit-constructor)
      : value_(std::make_shared<const T>(std::move(value))) {}
  SharedValue(std::optional<T> value) {  // NOLINT(google-explicit-constructor)
    if (value.has_value()) value_ = std::make_shared<const T>(*std::move(value));
  }

  // Also accepts a braced list, as std::optional does.
  template <class U = T>
  requires(!std::is_same_v<std::remove_cvref_t<U>, SharedValue>) SharedValue& operator=(U&& value) {
    return *this = SharedValue(std::forward<U>(value));
  }

  bool has_value() const { return value_ != nullptr; }
  // REQUIRES: has_value().
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }

  friend bool operator==(const SharedValue& a, const SharedValue& b) {
    if (a.value_ == b.value_) return true;
    return a.has_value() && b.has_value() && *a == *b;
  }

 private:
  std::shared_ptr<const T> value_;
};

// A list of T.
template <class T>
class SharedList {
 public:
  using value_type = T;
  using const_iterator = const T*;
  using iterator = const_iterator;

  SharedList() = default;
  SharedList(std::vector<T> items)  // NOLINT(google-explicit-constructor)
      : items_(std::make_shared<const std::vector<T>>(std::move(items))) {}
  SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}

  const T* data() const { return items_ == nullptr ? nullptr : items_->data(); }
  size_t size() const { return items_ == nullptr ? 0 : items_->size(); }
  bool empty() const { return size() == 0; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  const T& operator[](size_t i) const { return (*items_)[i]; }

  friend bool operator==(const SharedList& a, const SharedList& b) {
    if (a.items_ == b.items_) return true;
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!(a[i] == b[i])) return false;
    }
    return true;
  }

 private:
  std::shared_ptr<const std::vector<T>> items_;
};

}  // namespace outrider
