// Filters on one value: text, numbers and JSON. Those on sequences are in sequence_filters.cc.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>

#include "common/base/utf8_bytes.h"
#include "common/text/jinja/builtins.h"
#include "common/text/jinja/python_text.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/sequence_filters.h"
#include "common/text/jinja/text_operations.h"
#include "common/text/jinja/to_json.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;

// The text of any value, as most text filters accept.
Result<MarkedText> PlainTextOf(Runtime& runtime, const Value& value) {
  if (value.is_string()) OUTRIDER_TRY(TextArgument(value, "the string").status());
  return runtime.TextOf(value);
}

using Change = std::string (*)(std::string_view);

template <Change change>
Result<Value> ChangeFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(const MarkedText text, PlainTextOf(runtime, self));
  OUTRIDER_TRY(runtime.CountBytes(text.size() * 3));  // a special case has three characters
  return Value::Text(Changed(text, change(text.text())));
}

// Jinja's own, not str.title: capitalizes the first character after space, - ( { [ and <.
std::string TitleOfWords(std::string_view text) {
  std::string out;
  const auto separates = [](char32_t code) {
    return IsSpace(code) || (code < 0x80 && std::string_view("-({[<").find(
                                                static_cast<char>(code)) != std::string_view::npos);
  };
  while (!text.empty()) {
    size_t end = 0;
    const bool separator = separates(FirstCharacter(text).code);
    while (end < text.size() && separates(FirstCharacter(text.substr(end)).code) == separator) {
      end += FirstCharacter(text.substr(end)).size;
    }
    const std::string_view word = text.substr(0, end);
    const size_t first = FirstCharacter(word).size;
    out += Upper(word.substr(0, first)) + Lower(word.substr(first));
    text.remove_prefix(end);
  }
  return out;
}

Result<Value> TrimFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText text, PlainTextOf(runtime, self));
  std::optional<std::string_view> chars;
  if (bound.at[0] != nullptr && !bound.at[0]->is_none()) {
    OUTRIDER_ASSIGN(const MarkedText* const set, TextArgument(*bound.at[0], "chars"));
    chars = set->text();
  }
  return Value::Text(Strip(text, chars, Side::kBoth));
}

Result<Value> ReplaceFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText text, PlainTextOf(runtime, self));
  OUTRIDER_ASSIGN(const MarkedText from, PlainTextOf(runtime, *bound.at[0]));
  OUTRIDER_ASSIGN(const MarkedText to, PlainTextOf(runtime, *bound.at[1]));
  OUTRIDER_ASSIGN(const int64_t most, IntArgument(bound.at[2], "count", -1));
  OUTRIDER_TRY(runtime.CountBytes(BytesAfterReplace(text, from.text(), to, most)));
  return Value::Text(Replace(text, from.text(), to, most));
}

Result<Value> IndentFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const given, TextArgument(self, "the string"));
  MarkedText indent("    ");
  if (bound.at[0] != nullptr && bound.at[0]->is_string()) {
    OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(*bound.at[0], "width"));
    indent = *text;
  } else if (bound.at[0] != nullptr) {
    OUTRIDER_ASSIGN(const int64_t width, IntArgument(*bound.at[0], "width"));
    OUTRIDER_TRY(runtime.CountBytes(static_cast<size_t>(
        std::clamp<int64_t>(width, 0, static_cast<int64_t>(runtime.limits().value_bytes) + 1))));
    indent = MarkedText(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
  }
  const bool first = FlagArgument(bound.at[1], false), blank = FlagArgument(bound.at[2], false);
  MarkedText text = *given;
  text.Append("\n");  // as in Jinja: an empty last line stays
  OUTRIDER_TRY(runtime.CountBytes(text.size()));
  MarkedText out;
  if (first) out.Append(indent);
  bool is_first = true;
  for (const Line& line : SplitLines(text.text())) {
    OUTRIDER_TRY(runtime.CountBytes(1 + indent.size() + line.end - line.begin));
    if (!std::exchange(is_first, false)) {
      out.Append("\n");
      if (blank || line.begin < line.end) out.Append(indent);
    }
    out.Append(text, {line.begin, line.end});
  }
  return Value::Text(std::move(out));
}

Result<Value> CenterFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(MarkedText text, PlainTextOf(runtime, self));
  OUTRIDER_ASSIGN(const std::optional<Value> center,
                  FindMethod(Value::Text(std::move(text)), "center"));
  const Arguments arguments{{bound.at[0] == nullptr ? Value::Int(80) : *bound.at[0]}, {}};
  return CallBuiltin(*center->function().builtin, runtime, center->function().self, arguments);
}

Result<Value> TruncateFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const int64_t length, IntArgument(bound.at[0], "length", 255));
  MarkedText end("...");
  if (bound.at[2] != nullptr) {
    OUTRIDER_ASSIGN(const MarkedText* const given, TextArgument(*bound.at[2], "end"));
    end = *given;
  }
  OUTRIDER_ASSIGN(const int64_t leeway, IntArgument(bound.at[3], "leeway", 5));
  const auto end_length = static_cast<int64_t>(CountCharacters(end.text()));
  if (length < end_length || leeway < 0) return InvalidArgument("length or leeway is too small");
  OUTRIDER_ASSIGN(const size_t given, runtime.LengthOf(self));
  if (static_cast<int64_t>(given) - leeway <= length) return self;
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  MarkedText kept =
      text->Slice({0, ByteOfCharacter(text->text(), static_cast<size_t>(length - end_length))});
  if (!FlagArgument(bound.at[1], false)) {
    if (const size_t space = kept.text().rfind(' '); space != std::string::npos) {
      kept = kept.Slice({0, space});
    }
  }
  kept.Append(end);
  return runtime.NewText(std::move(kept));
}

Result<Value> WordCountFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(const MarkedText text, PlainTextOf(runtime, self));
  int64_t count = 0;
  bool in_word = false;
  for (std::string_view rest = text.text(); !rest.empty();) {
    const Utf8Character character = FirstCharacter(rest);
    const bool is_word = character.code == '_' || IsAlnum(character.code);
    count += is_word && !in_word ? 1 : 0;
    in_word = is_word;
    rest.remove_prefix(character.size);
  }
  return Value::Int(count);
}

Result<Value> StringFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  if (self.is_string()) return self;
  OUTRIDER_ASSIGN(MarkedText text, runtime.TextOf(self));
  return Value::Text(std::move(text));
}

Result<Value> SafeFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(MarkedText text, runtime.TextOf(self));
  return Value::Of(std::make_shared<const String>(String{std::move(text), true}));
}

Result<Value> EscapeFilter(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  return EscapeText(runtime, self);
}

Result<Value> FormatFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  const Arguments& all = *bound.all;
  if (!all.positional.empty() && !all.named.empty()) {
    return InvalidArgument("takes arguments by position or by name, not both");
  }
  OUTRIDER_ASSIGN(MarkedText format, PlainTextOf(runtime, self));
  if (all.named.empty()) {
    OUTRIDER_ASSIGN(const Value tuple, NewTuple(all.positional));
    return FormatPercent(runtime, Value::Text(std::move(format)), tuple);
  }
  Dict dict;
  for (const auto& [name, value] : all.named) dict.Set(Value::Text(name), value);
  OUTRIDER_ASSIGN(const Value mapping, NewDict(std::move(dict)));
  return FormatPercent(runtime, Value::Text(std::move(format)), mapping);
}

Result<Value> DefaultFilter(Runtime& /*runtime*/, const Value& self, const Bound& bound) {
  const bool replaced = self.is_undefined() || (FlagArgument(bound.at[1], false) && !IsTrue(self));
  if (!replaced) return self;
  return bound.at[0] == nullptr ? Value::Text("") : *bound.at[0];
}

// --- numbers ---

Result<Value> TruncatedToInt(double value) {
  if (!(std::abs(value) < 9.2e18)) return InvalidArgument("the number does not fit in 64 bits");
  return Value::Int(static_cast<int64_t>(value));
}

Result<Value> IntFilter(Runtime& /*runtime*/, const Value& self, const Bound& bound) {
  const Value otherwise = bound.at[0] == nullptr ? Value::Int(0) : *bound.at[0];
  OUTRIDER_ASSIGN(const int64_t base, IntArgument(bound.at[1], "base", 10));
  if (self.is_undefined()) return InvalidArgument(self.undefined_reason());
  if (const auto number = self.AsInt()) return Value::Int(*number);
  if (self.Is(Kind::kLongInt)) return self;
  if (self.Is(Kind::kFloat)) {
    if (std::isnan(self.real())) return otherwise;
    return TruncatedToInt(self.real());
  }
  if (!self.is_string()) return otherwise;
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  if (base != 0 && (base < 2 || base > 36)) return InvalidArgument("base must be 0 or 2 to 36");
  bool too_large = false;
  const auto number = ParseInt(text->text(), static_cast<int>(base), &too_large);
  if (too_large) return InvalidArgument("the number does not fit in 64 bits");
  if (number.has_value()) return Value::Int(*number);
  const auto real = ParseFloat(text->text());
  if (!real.has_value() || !std::isfinite(*real)) return otherwise;
  return TruncatedToInt(*real);
}

Result<Value> FloatFilter(Runtime& /*runtime*/, const Value& self, const Bound& bound) {
  const Value otherwise = bound.at[0] == nullptr ? Value::Float(0) : *bound.at[0];
  if (self.is_undefined()) return InvalidArgument(self.undefined_reason());
  if (const auto number = self.AsNumber()) return Value::Float(*number);
  if (self.Is(Kind::kLongInt)) return Value::Float(ParseFloat(self.digits()).value_or(0));
  if (!self.is_string()) return otherwise;
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  const auto real = ParseFloat(text->text());
  return real.has_value() ? Value::Float(*real) : otherwise;
}

Result<Value> AbsFilter(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  if (self.Is(Kind::kFloat)) return Value::Float(std::abs(self.real()));
  if (!self.AsInt().has_value()) return InvalidArgument("needs a number");
  if (*self.AsInt() == INT64_MIN) return InvalidArgument("the number does not fit in 64 bits");
  return Value::Int(std::abs(*self.AsInt()));
}

Result<Value> RoundFilter(Runtime& /*runtime*/, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const int64_t precision, IntArgument(bound.at[0], "precision", 0));
  std::string method = "common";
  if (bound.at[1] != nullptr) {
    OUTRIDER_ASSIGN(const MarkedText* const given, TextArgument(*bound.at[1], "method"));
    method = given->text();
  }
  if (method != "common" && method != "ceil" && method != "floor") {
    return InvalidArgument("method must be common, ceil or floor");
  }
  if (precision < 0 || precision > 300) {
    return InvalidArgument("a precision below 0 or above 300 is not supported");
  }
  const auto number = self.AsNumber();
  if (!number.has_value()) return InvalidArgument("needs a number");
  if (method == "common") {
    if (const auto integer = self.AsInt()) return Value::Int(*integer);
    if (!std::isfinite(*number)) return self;
    char text[700];  // DBL_MAX has 309 digits before the point
    std::snprintf(text, sizeof(text), "%.*f", static_cast<int>(precision), *number);
    return Value::Float(std::strtod(text, nullptr));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *number * scale;
  if (!std::isfinite(scaled)) return InvalidArgument("the number is too large");
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

// --- JSON ---

Result<std::string> IndentOf(const Value& value) {
  if (value.is_string()) return value.text();
  OUTRIDER_ASSIGN(const int64_t width, IntArgument(value, "indent"));
  if (width > 100) return InvalidArgument("indent is above 100");
  return std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
}

Result<Value> ToJsonFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  JsonStyle style;
  style.ascii = FlagArgument(bound.at[0], false);
  style.sort_keys = FlagArgument(bound.at[3], false);
  if (bound.at[1] != nullptr && !bound.at[1]->is_none()) {
    OUTRIDER_ASSIGN(style.indent, IndentOf(*bound.at[1]));
    style.item_separator = ",";
  }
  if (bound.at[2] != nullptr && !bound.at[2]->is_none()) {
    OUTRIDER_ASSIGN(const std::vector<Value> pair, runtime.ItemsOf(*bound.at[2]));
    if (pair.size() != 2) return InvalidArgument("separators must be two strings");
    OUTRIDER_ASSIGN(const MarkedText* const item, TextArgument(pair[0], "the first separator"));
    OUTRIDER_ASSIGN(const MarkedText* const key, TextArgument(pair[1], "the second separator"));
    style.item_separator = item->text();
    style.key_separator = key->text();
  }
  OUTRIDER_ASSIGN(MarkedText text, ToJson(runtime, self, style));
  return Value::Text(std::move(text));
}

constexpr Builtin kFilters[] = {
    {"abs", "", AbsFilter},
    {"capitalize", "", ChangeFilter<Capitalized>},
    {"center", "width?", CenterFilter},
    {"d", "default_value? boolean?", DefaultFilter},
    {"default", "default_value? boolean?", DefaultFilter},
    {"e", "", EscapeFilter},
    {"escape", "", EscapeFilter},
    {"float", "default?", FloatFilter},
    {"format", "*", FormatFilter},
    {"indent", "width? first? blank?", IndentFilter},
    {"int", "default? base?", IntFilter},
    {"lower", "", ChangeFilter<Lower>},
    {"replace", "old new count?", ReplaceFilter},
    {"round", "precision? method?", RoundFilter},
    {"safe", "", SafeFilter},
    {"string", "", StringFilter},
    {"title", "", ChangeFilter<TitleOfWords>},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", ToJsonFilter},
    {"trim", "chars?", TrimFilter},
    {"truncate", "length? killwords? end? leeway?", TruncateFilter},
    {"upper", "", ChangeFilter<Upper>},
    {"wordcount", "", WordCountFilter},
};

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  for (const std::span<const Builtin> table :
       {std::span<const Builtin>(kFilters), SequenceFilters()}) {
    for (const Builtin& filter : table) {
      if (filter.name == name) return &filter;
    }
  }
  return nullptr;
}

}  // namespace outrider::jinja
