#include "common/text/jinja/loop.h"

#include <algorithm>
#include <cstdint>

namespace outrider::jinja {

std::optional<Value> Loop::Attribute(std::string_view name) const {
  const auto number = [](size_t value) { return Value::Int(static_cast<int64_t>(value)); };
  if (name == "index") return number(index0_ + 1);
  if (name == "index0") return number(index0_);
  if (name == "revindex") return number(length_ - index0_);
  if (name == "revindex0") return number(length_ - index0_ - 1);
  if (name == "length") return number(length_);
  if (name == "first") return Value::Bool(index0_ == 0);
  if (name == "last") return Value::Bool(index0_ + 1 == length_);
  if (name == "depth") return Value::Int(depth0_ + 1);
  if (name == "depth0") return Value::Int(depth0_);
  if (name == "previtem") {
    if (index0_ == 0 || index0_ > items_.size()) {
      return Value::Undefined("there is no previous item");
    }
    return items_[index0_ - 1];
  }
  if (name == "nextitem") {
    if (index0_ + 1 >= items_.size()) return Value::Undefined("there is no next item");
    return items_[index0_ + 1];
  }
  return std::nullopt;
}

bool Loop::Changed(std::vector<Value> values) {
  const bool same =
      last_changed_.has_value() && std::equal(values.begin(), values.end(), last_changed_->begin(),
                                              last_changed_->end(), IsEqual);
  last_changed_ = std::move(values);
  return !same;
}

}  // namespace outrider::jinja
