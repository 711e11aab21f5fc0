// Strings, numbers and arrays of a JSON Schema.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/grammar/json_formats.h"
#include "common/grammar/regex.h"
#include "common/grammar/schema_reader.h"

namespace outrider::grammar {
namespace {

constexpr size_t kMaxPrefixItems = 256;
constexpr int64_t kMaxBound = int64_t{1} << 62;
constexpr int64_t kStepsOfPatternByte = 8;  // it is parsed each time that its schema is read

}  // namespace

Result<int> SchemaReader::ReadCount(const JsonValue& value, int otherwise) {
  if (value.absent()) return otherwise;
  return value.Int(0, rules_.limits().repetitions);
}

Result<ExprId> SchemaReader::ReadString(const JsonValue& schema) {
  const JsonValue pattern = schema["pattern"], format = schema["format"];
  const bool has_length = !schema["minLength"].absent() || !schema["maxLength"].absent();
  if (!pattern.absent() && !format.absent()) {
    return format.Error("is not supported beside pattern");
  }
  if ((!pattern.absent() || !format.absent()) && has_length) {
    return schema[schema["minLength"].absent() ? "maxLength" : "minLength"].Error(
        "is not supported beside pattern or format");
  }
  if (!format.absent()) {
    OUTRIDER_ASSIGN(const std::string name, format.String());
    const std::optional<std::string> regex = RegexOfFormat(name);
    if (!regex) return format.Wrong("one of " + KnownFormats());
    OUTRIDER_ASSIGN(const ExprId text, ParseRegex(*regex, rules_));
    return json_.Quoted(text);
  }
  if (!pattern.absent()) {
    OUTRIDER_ASSIGN(const std::string regex, pattern.String());
    rules_.Spend(kStepsOfPatternByte * static_cast<int64_t>(regex.size()));
    OUTRIDER_TRY(rules_.status());
    const Result<ExprId> text = ParseRegex(
        regex, rules_, {.may_lie_inside = true, .write_character = &JsonRules::CharacterOf});
    if (!text.ok()) return pattern.Error(text.status().message());
    return json_.Quoted(*text);
  }
  if (!has_length) return json_.String();
  OUTRIDER_ASSIGN(const int min, ReadCount(schema["minLength"], 0));
  OUTRIDER_ASSIGN(const int max, ReadCount(schema["maxLength"], kUnbounded));
  if (max != kUnbounded && max < min) return schema["maxLength"].Error("is below minLength");
  return json_.Quoted(rules_.Repeat(json_.Character(), min, max));
}

Result<std::optional<int64_t>> SchemaReader::ReadBound(const JsonValue& value, bool is_integer,
                                                       bool is_low, bool* is_excluded) {
  if (value.absent()) return std::optional<int64_t>();
  if (value.is_integer()) {
    OUTRIDER_ASSIGN(const int64_t bound, value.Int64(-kMaxBound, kMaxBound));
    return std::optional<int64_t>(bound);
  }
  OUTRIDER_ASSIGN(const double bound, value.Number(-9e15, 9e15));
  if (bound == std::floor(bound)) return std::optional<int64_t>(static_cast<int64_t>(bound));
  if (!is_integer) {
    return value.Error("bounds of numbers must be integers; others are not supported");
  }
  *is_excluded = false;
  return std::optional<int64_t>(
      static_cast<int64_t>(is_low ? std::ceil(bound) : std::floor(bound)));
}

Result<ExprId> SchemaReader::ReadNumber(const JsonValue& schema, bool is_integer) {
  NumberRange range;
  bool low_excluded = true, high_excluded = true, low_included = false, high_included = false;
  OUTRIDER_ASSIGN(range.low, ReadBound(schema["minimum"], is_integer, true, &low_included));
  OUTRIDER_ASSIGN(range.high, ReadBound(schema["maximum"], is_integer, false, &high_included));
  OUTRIDER_ASSIGN(const std::optional<int64_t> above,
                  ReadBound(schema["exclusiveMinimum"], is_integer, true, &low_excluded));
  OUTRIDER_ASSIGN(const std::optional<int64_t> below,
                  ReadBound(schema["exclusiveMaximum"], is_integer, false, &high_excluded));
  if (above && (!range.low || *above >= *range.low)) {
    range.low_is_excluded = low_excluded;
    range.low = above;
  }
  if (below && (!range.high || *below <= *range.high)) {
    range.high_is_excluded = high_excluded;
    range.high = below;
  }
  if (!range.low && !range.high) return is_integer ? json_.Integer() : json_.Number();
  return is_integer ? IntegersIn(rules_, range) : NumbersIn(rules_, range);
}

Result<ExprId> SchemaReader::ReadArray(const JsonValue& schema) {
  const JsonValue prefix = schema["prefixItems"], items = schema["items"];
  if (const JsonValue unique = schema["uniqueItems"]; !unique.absent()) {
    OUTRIDER_ASSIGN(const bool is_unique, unique.Bool());
    if (is_unique) return unique.Error("true is not supported");
  }
  OUTRIDER_ASSIGN(const int min, ReadCount(schema["minItems"], 0));
  OUTRIDER_ASSIGN(int max, ReadCount(schema["maxItems"], kUnbounded));
  if (max != kUnbounded && max < min) return schema["maxItems"].Error("is below minItems");
  std::vector<ExprId> first;
  if (!prefix.absent()) {
    OUTRIDER_TRY(prefix.MustBeArray());
    if (prefix.size() > kMaxPrefixItems) {
      return prefix.Error("has more than " + std::to_string(kMaxPrefixItems) + " schemas");
    }
    for (size_t i = 0; i < prefix.size(); ++i) {
      OUTRIDER_ASSIGN(const ExprId item, ReadSchema(prefix[i]));
      first.push_back(item);
    }
  }
  const auto count = static_cast<int>(first.size());
  const bool is_closed =
      items.absent() ? !prefix.absent() : items.is_bool() && !items.Bool().value();
  if (is_closed) max = max == kUnbounded ? count : std::min(max, count);
  if (max != kUnbounded && max < min) {
    return schema["minItems"].Error("asks for more items than there are schemas for");
  }
  ExprId item = kNoExpr;
  if (max == kUnbounded || max > count) {
    if (items.absent()) {
      item = json_.Value();
    } else {
      OUTRIDER_ASSIGN(item, ReadSchema(items));
    }
  }
  if (first.empty()) {
    return json_.InBrackets(item == kNoExpr ? rules_.Empty() : json_.List(item, min, max));
  }
  return json_.InBrackets(Tuple(first, item, min, max));
}

ExprId SchemaReader::Tuple(const std::vector<ExprId>& first, ExprId item, int min, int max) {
  const auto count = static_cast<int>(first.size());
  ExprId tail = rules_.Empty();
  if (item != kNoExpr) {
    const ExprId more = rules_.Sequence({json_.Comma(), rules_.Shared(item)});
    tail =
        rules_.Repeat(more, std::max(min - count, 0), max == kUnbounded ? kUnbounded : max - count);
  }
  for (int i = count - 1; i >= 0; --i) {
    if (max != kUnbounded && i >= max) continue;
    std::vector<ExprId> parts;
    if (i > 0) parts.push_back(json_.Comma());
    parts.push_back(first[static_cast<size_t>(i)]);
    parts.push_back(tail);
    tail = rules_.Sequence(std::move(parts));
    if (i >= min) tail = rules_.Optional(tail);
  }
  return tail;
}

}  // namespace outrider::grammar
