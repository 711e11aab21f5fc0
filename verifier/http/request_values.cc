#include "verifier/http/request_values.h"

#include <charconv>

#include "common/base/printable.h"

namespace outrider {
namespace {

constexpr JsonLimits kBodyLimits = {
    .depth = kMaxBodyDepth,
    // As token ids, a prompt of the longest context takes an eighth of this; a number takes 16
    // bytes.
    .values = 1 << 20,
    // A chat of 6000 messages has this many.
    .large_values = 1 << 16,
    .exact_text = true,  // the model sees tools and chat_template_kwargs
};

Status CheckSize(const JsonValue& field, int max_items) {
  if (field.size() <= static_cast<size_t>(max_items)) return Status();
  return CheckAtMost(field.path(), static_cast<int64_t>(field.size()), max_items);
}

}  // namespace

Result<JsonValue> ParseBody(std::string_view text) {
  return ParseJsonObject(text, "the body", kBodyLimits);
}

Status ReadInts(const JsonValue& field, int max_items, std::vector<int>* out) {
  if (field.is_null()) return Status();
  if (!field.is_array()) return field.Wrong("an array of integers");
  OUTRIDER_TRY(CheckSize(field, max_items));
  out->clear();
  for (size_t i = 0; i < field.size(); ++i) {
    const Result<int> number = field[i].Int();
    if (!number.ok()) return field.Error(field[i].Shown() + " is not an integer of 32 bits");
    out->push_back(*number);
  }
  return Status();
}

Status ReadStrings(const JsonValue& field, int max_items, std::vector<std::string>* out) {
  if (field.is_null()) return Status();
  if (field.is_string()) {
    *out = {field.text()};
    return Status();
  }
  if (!field.is_array()) return field.Wrong("a string or an array of strings");
  OUTRIDER_TRY(CheckSize(field, max_items));
  out->clear();
  for (size_t i = 0; i < field.size(); ++i) {
    if (!field[i].is_string()) return field.Error(field[i].Shown() + " is not a string");
    out->push_back(field[i].text());
  }
  return Status();
}

Status ReadBias(const JsonValue& field, int max_items,
                std::vector<std::pair<TokenId, float>>* out) {
  if (field.is_null()) return Status();
  if (!field.is_object()) return field.Wrong("an object of numbers by token id");
  OUTRIDER_TRY(CheckSize(field, max_items));
  return field.ForEachMember([&](const std::string& key, const JsonValue& bias) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || std::to_string(id) != key) {
      return field.Error("the key \"" + Printable(key, kMaxShownText) + "\" is not a token id");
    }
    const Result<float> number = bias.Float();
    if (!number.ok()) {
      return field.Error("token " + key + " has " + bias.Shown() + ", must have a number");
    }
    out->emplace_back(id, *number);
    return Status();
  });
}

}  // namespace outrider
