#include "verifier/http/json_fields.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/printable.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 16;
// A prompt of the longest context as token ids takes an eighth of this; a number takes 16 bytes.
constexpr int kMaxValues = 1 << 20;
// Of these: members, strings, arrays and objects, which take up to 200 bytes and their text. A chat
// of 6000 messages has as many.
constexpr int kMaxLargeValues = 1 << 16;

bool FitsFloat(const Json& number) {
  return std::abs(number.get<double>()) <= double{std::numeric_limits<float>::max()};
}

// Builds the value as the parser goes, and stops the parser at a limit.
class BodyReader final : public nlohmann::json_sax<Json> {
 public:
  Json& root() { return root_; }
  const Status& status() const { return status_; }

  bool null() override { return Add(nullptr, 0) != nullptr; }
  bool boolean(bool value) override { return Add(value, 0) != nullptr; }
  bool number_integer(int64_t value) override { return Add(value, 0) != nullptr; }
  bool number_unsigned(uint64_t value) override { return Add(value, 0) != nullptr; }
  bool number_float(double value, const std::string& /*text*/) override {
    return Add(value, 0) != nullptr;
  }
  bool string(std::string& value) override { return Add(std::move(value), 1) != nullptr; }
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return Open(Json::object()); }
  bool start_array(size_t /*size*/) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(std::string& name) override {
    if (!Count(0, 1)) return false;
    auto& members = open_.back()->get_ref<Json::object_t&>();
    const auto [at, is_new] = members.emplace(name, nullptr);
    member_ = &at->second;
    if (is_new) return true;
    status_ = open_.size() == 1
                  ? InvalidArgument(Printable(name, kMaxShown) + " is given twice; send it once")
                  : InvalidArgument("the body has an object with " + Shown(name) + " twice");
    return false;
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    status_ = InvalidArgument("the body is not well-formed JSON in UTF-8, near byte " +
                              std::to_string(position));
    return false;
  }

 private:
  bool Count(int values, int large) {
    values_ += values;
    large_ += large;
    if (values_ <= kMaxValues && large_ <= kMaxLargeValues) return true;
    status_ =
        values_ > kMaxValues
            ? InvalidArgument("the body holds more than " + std::to_string(kMaxValues) + " values")
            : InvalidArgument("the body holds more than " + std::to_string(kMaxLargeValues) +
                              " members, strings, arrays and objects");
    return false;
  }
  // nullptr at a limit.
  Json* Add(Json value, int large) {
    if (!Count(1, large)) return nullptr;
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (!parent.is_array()) return &(*member_ = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  bool Open(Json empty) {
    if (open_.size() == kMaxDepth) {
      status_ = InvalidArgument("the body is nested deeper than " + std::to_string(kMaxDepth));
      return false;
    }
    Json* const added = Add(std::move(empty), 1);
    if (added == nullptr) return false;
    open_.push_back(added);
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // from the root to where the parser is
  Json* member_ = nullptr;   // of the innermost object: the one whose value comes next
  int values_ = 0, large_ = 0;
  Status status_;
};

}  // namespace

Result<Json> ParseJsonObject(std::string_view text) {
  BodyReader reader;
  if (!Json::sax_parse(text, &reader)) return reader.status();
  if (!reader.root().is_object()) {
    return InvalidArgument("the body is not a JSON object but " + Shown(reader.root()));
  }
  return std::move(reader.root());
}

std::string Shown(const Json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  const Json short_value =
      value.is_string() ? Json(Printable(value.get_ref<const std::string&>(), kMaxShown)) : value;
  return short_value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<int> ToInt(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const bool fits = value.is_number_unsigned() ? std::in_range<int>(value.get<uint64_t>())
                                               : std::in_range<int>(value.get<int64_t>());
  return fits ? std::optional(value.get<int>()) : std::nullopt;
}

JsonFields::JsonFields(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

const Json* JsonFields::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json* JsonFields::Next(const char* name) const { return status_.ok() ? Find(name) : nullptr; }

void JsonFields::Refuse(const char* name, const std::string& why) {
  if (status_.ok()) status_ = InvalidArgument(path_ + name + ": " + why);
}

void JsonFields::RefuseValue(const char* name, const Json& value, const char* wanted) {
  if (!status_.ok()) return;
  status_ = InvalidArgument(path_ + name + " is " + Shown(value) + ", must be " + wanted);
}

bool JsonFields::CheckSize(const char* name, const Json& value, int max_items) {
  if (status_.ok())
    status_ = CheckAtMost(path_ + name, static_cast<int64_t>(value.size()), max_items);
  return status_.ok();
}

void JsonFields::Read(const char* name, bool* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return RefuseValue(name, *value, "true or false");
  *out = value->get<bool>();
}

void JsonFields::Read(const char* name, float* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_number()) return RefuseValue(name, *value, "a number");
  if (!FitsFloat(*value)) return RefuseValue(name, *value, "a number of 32 bits");
  *out = value->get<float>();
}

void JsonFields::Read(const char* name, std::optional<int>* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  const std::optional<int> number = ToInt(*value);
  if (!number.has_value()) return RefuseValue(name, *value, "an integer of 32 bits");
  *out = number;
}

void JsonFields::Read(const char* name, int* out) {
  std::optional<int> value;
  Read(name, &value);
  *out = value.value_or(*out);
}

void JsonFields::Read(const char* name, std::optional<uint64_t>* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_number_integer()) return RefuseValue(name, *value, "an integer of 64 bits");
  *out = value->is_number_unsigned() ? value->get<uint64_t>()
                                     : static_cast<uint64_t>(value->get<int64_t>());
}

void JsonFields::Read(const char* name, std::string* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_string()) return RefuseValue(name, *value, "a string");
  *out = value->get_ref<const std::string&>();
}

void JsonFields::ReadInts(const char* name, int max_items, std::vector<int>* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_array()) return RefuseValue(name, *value, "an array of integers");
  if (!CheckSize(name, *value, max_items)) return;
  std::vector<int> ints;
  for (const Json& item : *value) {
    const std::optional<int> number = ToInt(item);
    if (!number.has_value()) return Refuse(name, Shown(item) + " is no integer of 32 bits");
    ints.push_back(*number);
  }
  *out = std::move(ints);
}

void JsonFields::ReadStrings(const char* name, int max_items, std::vector<std::string>* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  std::vector<std::string> strings;
  if (value->is_string()) {
    strings.push_back(value->get<std::string>());
  } else {
    if (!value->is_array()) return RefuseValue(name, *value, "a string or an array of strings");
    if (!CheckSize(name, *value, max_items)) return;
    for (const Json& item : *value) {
      if (!item.is_string()) return Refuse(name, Shown(item) + " is no string");
      strings.push_back(item.get<std::string>());
    }
  }
  *out = std::move(strings);
}

void JsonFields::ReadBias(const char* name, int max_items,
                          std::vector<std::pair<TokenId, float>>* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_object()) return RefuseValue(name, *value, "an object of numbers by token id");
  if (!CheckSize(name, *value, max_items)) return;
  for (const auto& [key, bias] : value->items()) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || std::to_string(id) != key) {
      return Refuse(name, "the key " + Shown(key) + " is no token id");
    }
    if (!bias.is_number() || !FitsFloat(bias)) {
      return Refuse(name, "token " + key + " has " + Shown(bias) + ", must have a number");
    }
    out->emplace_back(id, bias.get<float>());
  }
}

}  // namespace outrider
