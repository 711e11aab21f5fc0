// Reads strings, numbers and arrays of a JSON Schema.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/grammar/json_formats.h"
#include "common/grammar/regex.h"
#include "common/grammar/schema_reader.h"
#include "common/grammar/text_dfa.h"

namespace outrider::grammar {
namespace {

constexpr size_t kMaxPrefixItems = 256;
constexpr int64_t kMaxBound = int64_t{1} << 62;
constexpr int64_t kStepsOfPatternByte = 8;  // it is parsed each time its schema is read

constexpr double kMaxDoubleBound = 9e15;
constexpr size_t kMaxBoundDigits = 20;  // after the point
// The largest multiple; the number of states is proportional to it.
constexpr int64_t kMaxMultiple = 1000;
constexpr int kMaxMultipleDigits = 9;

// The exact decimal of its shortest text: 0.1 is a tenth, not the nearest double.
Result<Decimal> DecimalOf(const JsonValue& value) {
  Decimal out;
  if (value.is_integer()) {
    OUTRIDER_ASSIGN(const int64_t whole, value.Int64(-kMaxBound, kMaxBound));
    out.is_negative = whole < 0;
    out.whole = std::abs(whole);
    return out;
  }
  OUTRIDER_TRY(value.Number(-kMaxDoubleBound, kMaxDoubleBound).status());
  const std::string text = value.Dump();
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  std::string digits = text.substr(0, e);
  out.is_negative = digits.starts_with('-');
  if (out.is_negative) digits.erase(0, 1);
  const size_t point = std::min(digits.find('.'), digits.size());
  int64_t places = point < digits.size() ? static_cast<int64_t>(digits.size() - point - 1) : 0;
  if (point < digits.size()) digits.erase(point, 1);
  if (e < text.size()) places -= std::stol(text.substr(e + 1));
  if (places < 0) digits.append(static_cast<size_t>(std::min<int64_t>(-places, 20)), '0');
  places = std::max<int64_t>(places, 0);
  while (places > 0 && digits.ends_with('0')) {
    digits.pop_back();
    --places;
  }
  if (places > static_cast<int64_t>(kMaxBoundDigits)) {
    return value.Error("has more than " + std::to_string(kMaxBoundDigits) +
                       " digits after its point, which is not supported");
  }
  const auto count = static_cast<size_t>(places);
  if (digits.size() <= count) digits.insert(0, count + 1 - digits.size(), '0');
  out.fraction = digits.substr(digits.size() - count);
  out.whole = std::stoll(digits.substr(0, digits.size() - count));
  out.is_negative = out.is_negative && (out.whole != 0 || count != 0);
  return out;
}

Result<TextDfa> MultiplesOf(RuleSet& rules, const JsonValue& multiple, bool is_integer) {
  OUTRIDER_ASSIGN(const Decimal of, DecimalOf(multiple));
  const auto digits = static_cast<int>(of.fraction.size());
  int64_t unit = of.whole;
  for (int i = 0; i < digits && unit <= kMaxMultiple; ++i) {
    unit = unit * 10 + (of.fraction[static_cast<size_t>(i)] - '0');
  }
  if (of.is_negative || unit == 0) return multiple.Wrong("above 0");
  if (unit > kMaxMultiple || digits > kMaxMultipleDigits) {
    return multiple.Error("must be an integer of at most " + std::to_string(kMaxMultiple) +
                          ", or one divided by up to 10^" + std::to_string(kMaxMultipleDigits) +
                          "; others are not supported");
  }
  Result<TextDfa> out =
      TextDfa::FromMultiples(rules, static_cast<uint32_t>(unit), digits, is_integer ? 0 : digits);
  if (!out.ok()) return multiple.Error(std::string(out.status().message()));
  return out;
}

}  // namespace

Result<int> SchemaReader::ReadCount(const JsonValue& value, int otherwise) {
  if (value.absent()) return otherwise;
  return value.Int(0, rules_.limits().repetitions);
}

Result<ExprId> SchemaReader::ReadString(const JsonValue& schema) {
  const bool has_length = !schema["minLength"].absent() || !schema["maxLength"].absent();
  OUTRIDER_ASSIGN(const int min, ReadCount(schema["minLength"], 0));
  OUTRIDER_ASSIGN(const int max, ReadCount(schema["maxLength"], kUnbounded));
  if (max != kUnbounded && max < min) return schema["maxLength"].Error("is below minLength");
  if (!schema["pattern"].absent() || !schema["format"].absent()) {
    OUTRIDER_ASSIGN(const ExprId text, ReadPattern(schema));
    return json_.Quoted(text);
  }
  if (!has_length) return json_.String();
  return json_.Quoted(rules_.Repeat(json_.Character(), min, max));
}

Result<ExprId> SchemaReader::ReadPattern(const JsonValue& schema) {
  const bool is_format = !schema["format"].absent();
  const JsonValue source = schema[is_format ? "format" : "pattern"];
  if (is_format && !schema["pattern"].absent()) {
    return source.Error("is not supported beside pattern");
  }
  OUTRIDER_ASSIGN(std::string regex, source.String());
  if (is_format) {
    const std::optional<std::string> known = RegexOfFormat(regex);
    if (!known) return source.Wrong("one of " + KnownFormats());
    regex = *known;
  }
  rules_.Spend(kStepsOfPatternByte * static_cast<int64_t>(regex.size()));
  OUTRIDER_TRY(rules_.status());
  RegexOptions options{.may_lie_inside = !is_format, .write_character = &JsonRules::CharacterOf};
  const bool has_length = !schema["minLength"].absent() || !schema["maxLength"].absent();
  if (has_length) options.write_character = nullptr;  // first counts characters
  const Result<ExprId> text = ParseRegex(regex, rules_, options);
  if (!text.ok()) return source.Error(text.status().message());
  if (!has_length) return *text;
  OUTRIDER_ASSIGN(const int min, ReadCount(schema["minLength"], 0));
  OUTRIDER_ASSIGN(const int max, ReadCount(schema["maxLength"], kUnbounded));
  return WithLength(source, *text, min, max);
}

Result<ExprId> SchemaReader::WithLength(const JsonValue& pattern, ExprId text, int min, int max) {
  const auto refuse = [&](const Status& status) {
    OUTRIDER_TRY(rules_.status());
    return pattern.Error("with the length beside it " + std::string(status.message()));
  };
  const Result<TextDfa> all = TextDfa::FromExpr(rules_, text);
  if (!all.ok()) return refuse(all.status());
  if (auto same = all->AsRepetition()) {
    const int least = std::max(min, same->min);
    const int most = max == kUnbounded         ? same->max
                     : same->max == kUnbounded ? max
                                               : std::min(max, same->max);
    if (most != kUnbounded && most < least) return pattern.Error("allows no text of the length");
    return rules_.Repeat(JsonRules::CharacterOf(rules_, same->characters), least, most);
  }
  const Result<TextDfa> length = TextDfa::FromLength(rules_, min, max);
  if (!length.ok()) return refuse(length.status());
  const Result<TextDfa> both = TextDfa::Intersect(rules_, *all, *length);
  if (!both.ok()) return refuse(both.status());
  return both->AddTo(rules_, &JsonRules::CharacterOf);
}

Result<std::optional<int64_t>> SchemaReader::ReadIntegerBound(const JsonValue& value, bool is_low,
                                                              bool* is_excluded) {
  if (value.absent()) return std::optional<int64_t>();
  if (value.is_integer()) {
    OUTRIDER_ASSIGN(const int64_t bound, value.Int64(-kMaxBound, kMaxBound));
    return std::optional<int64_t>(bound);
  }
  OUTRIDER_ASSIGN(const double bound, value.Number(-kMaxDoubleBound, kMaxDoubleBound));
  if (bound != std::floor(bound)) *is_excluded = false;
  return std::optional<int64_t>(
      static_cast<int64_t>(is_low ? std::ceil(bound) : std::floor(bound)));
}

Result<ExprId> SchemaReader::ReadIntegers(const JsonValue& schema) {
  IntegerRange range;
  bool low_excluded = true, high_excluded = true, low_included = false, high_included = false;
  OUTRIDER_ASSIGN(range.low, ReadIntegerBound(schema["minimum"], true, &low_included));
  OUTRIDER_ASSIGN(range.high, ReadIntegerBound(schema["maximum"], false, &high_included));
  OUTRIDER_ASSIGN(const std::optional<int64_t> above,
                  ReadIntegerBound(schema["exclusiveMinimum"], true, &low_excluded));
  OUTRIDER_ASSIGN(const std::optional<int64_t> below,
                  ReadIntegerBound(schema["exclusiveMaximum"], false, &high_excluded));
  if (above && (!range.low || *above >= *range.low)) {
    range.low_is_excluded = low_excluded;
    range.low = above;
  }
  if (below && (!range.high || *below <= *range.high)) {
    range.high_is_excluded = high_excluded;
    range.high = below;
  }
  const bool has_bounds = range.low || range.high;
  const JsonValue multiple = schema["multipleOf"];
  if (multiple.absent()) return has_bounds ? IntegersIn(rules_, range) : json_.Integer();
  std::vector<ExprId> bounds;
  if (has_bounds) bounds.push_back(IntegersIn(rules_, range));
  return AllOfNumbers(multiple, bounds, /*is_integer=*/true);
}

Result<ExprId> SchemaReader::ReadNumbers(const JsonValue& schema) {
  std::vector<ExprId> bounds;
  for (const bool is_low : {true, false}) {
    for (const bool is_excluded : {false, true}) {
      const JsonValue value =
          schema[is_excluded ? (is_low ? "exclusiveMinimum" : "exclusiveMaximum")
                             : (is_low ? "minimum" : "maximum")];
      if (value.absent()) continue;
      OUTRIDER_ASSIGN(const Decimal bound, DecimalOf(value));
      bounds.push_back(is_low ? NumbersFrom(rules_, bound, is_excluded)
                              : NumbersTo(rules_, bound, is_excluded));
    }
  }
  const JsonValue multiple = schema["multipleOf"];
  if (bounds.empty() && multiple.absent()) return json_.Number();
  if (bounds.size() == 1 && multiple.absent()) return bounds[0];
  return AllOfNumbers(multiple, bounds, /*is_integer=*/false);
}

Result<ExprId> SchemaReader::AllOfNumbers(const JsonValue& multiple,
                                          const std::vector<ExprId>& bounds, bool is_integer) {
  std::optional<TextDfa> all;
  if (!multiple.absent()) {
    OUTRIDER_ASSIGN(all, MultiplesOf(rules_, multiple, is_integer));
  }
  for (const ExprId bound : bounds) {
    OUTRIDER_ASSIGN(TextDfa next, TextDfa::FromExpr(rules_, bound));
    if (all) {
      OUTRIDER_ASSIGN(all, TextDfa::Intersect(rules_, *all, next));
    } else {
      all = std::move(next);
    }
  }
  return all->AddTo(rules_,
                    [](RuleSet& rules, const CodePointSet& set) { return rules.Characters(set); });
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
