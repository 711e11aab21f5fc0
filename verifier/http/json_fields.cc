#include "verifier/http/json_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace outrider {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;
// A prompt of the longest context as token ids takes an eighth of this; a value takes 16 to 100
// bytes of memory.
constexpr int kMaxValues = 1 << 20;

}  // namespace

Result<Json> ParseJsonObject(std::string_view text) {
  bool too_much = false;
  int values = 0;
  const auto within = [&](int depth, Json::parse_event_t, Json&) {
    too_much = too_much || depth > kMaxDepth || ++values > kMaxValues;
    return !too_much;
  };
  Json json = Json::parse(text, within, /*allow_exceptions=*/false);
  if (too_much) {
    return InvalidArgument("the body holds more than " + std::to_string(kMaxValues) +
                           " values, or they are nested deeper than " + std::to_string(kMaxDepth));
  }
  if (json.is_discarded()) return InvalidArgument("the body is not well-formed JSON in UTF-8");
  if (!json.is_object()) {
    return InvalidArgument(std::string("the body is not a JSON object but ") + json.type_name());
  }
  return json;
}

std::optional<int> ToBoundedInt(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  constexpr int64_t kLow = std::numeric_limits<int>::min();
  constexpr int64_t kHigh = std::numeric_limits<int>::max();
  if (value.is_number_unsigned()) {
    return static_cast<int>(std::min(value.get<uint64_t>(), static_cast<uint64_t>(kHigh)));
  }
  return static_cast<int>(std::clamp(value.get<int64_t>(), kLow, kHigh));
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

void JsonFields::RefuseType(const char* name, const Json& value, const char* wanted) {
  Refuse(name, std::string("is ") + value.type_name() + ", must be " + wanted);
}

void JsonFields::Read(const char* name, bool* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return RefuseType(name, *value, "true or false");
  *out = value->get<bool>();
}

void JsonFields::Read(const char* name, float* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_number()) return RefuseType(name, *value, "a number");
  *out = value->get<float>();
}

void JsonFields::Read(const char* name, std::optional<int>* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  const std::optional<int> number = ToBoundedInt(*value);
  if (!number.has_value()) return RefuseType(name, *value, "an integer");
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
  if (!value->is_number_integer()) return RefuseType(name, *value, "an integer");
  *out = value->is_number_unsigned() ? value->get<uint64_t>()
                                     : static_cast<uint64_t>(value->get<int64_t>());
}

void JsonFields::Read(const char* name, std::string* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_string()) return RefuseType(name, *value, "a string");
  *out = value->get_ref<const std::string&>();
}

void JsonFields::ReadInts(const char* name, std::vector<int>* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_array()) return RefuseType(name, *value, "an array of integers");
  std::vector<int> ints;
  for (const Json& item : *value) {
    const std::optional<int> number = ToBoundedInt(item);
    if (!number.has_value()) return Refuse(name, "an array of integers, not of others");
    ints.push_back(*number);
  }
  *out = std::move(ints);
}

void JsonFields::ReadStrings(const char* name, std::vector<std::string>* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  constexpr char kWanted[] = "a string or an array of strings";
  std::vector<std::string> strings;
  if (value->is_string()) {
    strings.push_back(value->get<std::string>());
  } else {
    if (!value->is_array()) return RefuseType(name, *value, kWanted);
    for (const Json& item : *value) {
      if (!item.is_string()) return Refuse(name, std::string("must be ") + kWanted);
      strings.push_back(item.get<std::string>());
    }
  }
  *out = std::move(strings);
}

void JsonFields::ReadBias(const char* name, std::vector<std::pair<TokenId, float>>* out) {
  const Json* value = Next(name);
  if (value == nullptr) return;
  if (!value->is_object()) return RefuseType(name, *value, "an object of numbers by token id");
  for (const auto& [key, bias] : value->items()) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      return Refuse(name, "a key is no token id");
    }
    if (!bias.is_number()) return Refuse(name, "token " + key + " has no number");
    out->emplace_back(id, bias.get<float>());
  }
}

}  // namespace outrider
