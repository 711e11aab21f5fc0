// Methods of strings, lists, dictionaries and loops.
#include <algorithm>
#include <span>
#include <utility>

#include "common/base/utf8_bytes.h"
#include "common/text/jinja/builtins.h"
#include "common/text/jinja/loop.h"
#include "common/text/jinja/python_text.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/text_operations.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;
using Flavor = Sequence::Flavor;

// --- strings ---

template <Side side>
Result<Value> StripMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  std::optional<std::string_view> chars;
  if (bound.at[0] != nullptr && !bound.at[0]->is_none()) {
    OUTRIDER_ASSIGN(const MarkedText* const set, TextArgument(*bound.at[0], "chars"));
    chars = set->text();
  }
  return runtime.NewText(Strip(*text, chars, side));
}

// Counts the parts of a text with `separators` separators, before they are made.
Status CountParts(Runtime& runtime, size_t separators, int64_t max_splits) {
  constexpr size_t kPartBytes = sizeof(String) + sizeof(MarkedText) + sizeof(TextSpan);
  const size_t parts =
      max_splits < 0 ? separators : std::min(separators, static_cast<size_t>(max_splits));
  return runtime.CountBytes((parts + 1) * kPartBytes);
}

Result<Value> ListOfTexts(Runtime& runtime, std::vector<MarkedText> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (MarkedText& part : parts) items.push_back(Value::Text(std::move(part)));
  return runtime.NewItems(Flavor::kList, std::move(items));
}

template <Side side>
Result<Value> SplitMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const int64_t max_splits, IntArgument(bound.at[1], "maxsplit", -1));
  OUTRIDER_TRY(runtime.CountBytes(text->size()));
  if (bound.at[0] == nullptr || bound.at[0]->is_none()) {
    OUTRIDER_TRY(CountParts(runtime, CountSpaces(text->text()), max_splits));
    return ListOfTexts(runtime, SplitAtSpace(*text, max_splits, side));
  }
  OUTRIDER_ASSIGN(const MarkedText* const separator, TextArgument(*bound.at[0], "sep"));
  if (separator->empty()) return InvalidArgument("the separator is empty");
  OUTRIDER_TRY(CountParts(runtime, CountOf(text->text(), separator->text()), max_splits));
  return ListOfTexts(runtime, SplitAt(*text, separator->text(), max_splits, side));
}

Result<Value> SplitLinesMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  const bool keep_ends = FlagArgument(bound.at[0], false);
  OUTRIDER_TRY(runtime.CountBytes(text->size()));
  std::vector<MarkedText> parts;
  for (const Line& line : SplitLines(text->text())) {
    OUTRIDER_TRY(runtime.CountBytes(sizeof(String)));
    parts.push_back(text->Slice({line.begin, keep_ends ? line.next : line.end}));
  }
  return ListOfTexts(runtime, std::move(parts));
}

// The bytes of the characters from `start` to `end` of a method's arguments; nullopt if `start` is
// beyond the text.
Result<std::optional<TextSpan>> PartOf(const MarkedText& text, const Value* start,
                                       const Value* end) {
  if (start == nullptr && end == nullptr) {
    return std::optional(TextSpan{0, text.size()});
  }
  const auto length = static_cast<int64_t>(CountCharacters(text.text()));
  OUTRIDER_ASSIGN(int64_t from, IntArgument(start, "start", 0));
  OUTRIDER_ASSIGN(int64_t to, IntArgument(end, "end", length));
  if (from < 0) from = std::max<int64_t>(from + length, 0);
  if (to < 0) to = std::max<int64_t>(to + length, 0);
  to = std::min(to, length);
  if (from > to) return std::optional<TextSpan>();
  return std::optional(TextSpan{ByteOfCharacter(text.text(), static_cast<size_t>(from)),
                                ByteOfCharacter(text.text(), static_cast<size_t>(to))});
}

// The index of the first or last occurrence of `sub`; -1 if there is none.
template <Side side>
Result<int64_t> Find(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const MarkedText* const sub, TextArgument(*bound.at[0], "sub"));
  OUTRIDER_TRY(runtime.CountBytes(text->size()));
  OUTRIDER_ASSIGN(const auto part, PartOf(*text, bound.at[1], bound.at[2]));
  if (!part.has_value()) return -1;
  const std::string_view whole =
      std::string_view(text->text()).substr(part->begin, part->end - part->begin);
  const size_t pos = side == Side::kLeft ? whole.find(sub->text()) : whole.rfind(sub->text());
  if (pos == whole.npos) return -1;
  return static_cast<int64_t>(
      CountCharacters(std::string_view(text->text()).substr(0, part->begin + pos)));
}

template <Side side>
Result<Value> FindTextMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const int64_t pos, Find<side>(runtime, self, bound));
  return Value::Int(pos);
}

template <Side side>
Result<Value> IndexMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const int64_t pos, Find<side>(runtime, self, bound));
  if (pos < 0) return InvalidArgument("the substring is not found");
  return Value::Int(pos);
}

Result<Value> CountMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const MarkedText* const sub, TextArgument(*bound.at[0], "sub"));
  OUTRIDER_TRY(runtime.CountBytes(text->size()));
  OUTRIDER_ASSIGN(const auto part, PartOf(*text, bound.at[1], bound.at[2]));
  if (!part.has_value()) return Value::Int(0);
  const MarkedText within = text->Slice(*part);
  return Value::Int(static_cast<int64_t>(CountOf(within.text(), sub->text())));
}

// startswith and endswith take a string or a tuple of them.
template <Side side>
Result<Value> AffixMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const auto part, PartOf(*text, bound.at[1], bound.at[2]));
  std::vector<Value> affixes = {*bound.at[0]};
  if (bound.at[0]->Is(Kind::kSequence) && bound.at[0]->sequence().flavor == Flavor::kTuple) {
    OUTRIDER_ASSIGN(affixes, runtime.ItemsOf(*bound.at[0]));
  }
  for (const Value& affix : affixes) {
    OUTRIDER_ASSIGN(const MarkedText* const wanted, TextArgument(affix, "the affix"));
    OUTRIDER_TRY(runtime.CountSteps(1 + wanted->size() / 16));
    if (!part.has_value()) continue;
    const std::string_view whole =
        std::string_view(text->text()).substr(part->begin, part->end - part->begin);
    const bool found =
        side == Side::kLeft ? whole.starts_with(wanted->text()) : whole.ends_with(wanted->text());
    if (found) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <Side side>
Result<Value> RemoveAffixMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const MarkedText* const affix, TextArgument(*bound.at[0], "the affix"));
  TextSpan rest{0, text->size()};
  if (side == Side::kLeft && text->text().starts_with(affix->text())) rest.begin += affix->size();
  if (side == Side::kRight && text->text().ends_with(affix->text())) rest.end -= affix->size();
  return runtime.NewText(text->Slice(rest));
}

template <Side side>
Result<Value> PartitionMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const MarkedText* const separator, TextArgument(*bound.at[0], "sep"));
  if (separator->empty()) return InvalidArgument("the separator is empty");
  OUTRIDER_TRY(runtime.CountBytes(text->size()));
  const size_t pos = side == Side::kLeft ? text->text().find(separator->text())
                                         : text->text().rfind(separator->text());
  if (pos == std::string::npos) {
    if (side == Side::kLeft) return NewTuple({self, Value::Text(""), Value::Text("")});
    return NewTuple({Value::Text(""), Value::Text(""), self});
  }
  const size_t end = pos + separator->size();
  return NewTuple({Value::Text(text->Slice({0, pos})), Value::Text(text->Slice({pos, end})),
                   Value::Text(text->Slice({end, text->size()}))});
}

Result<Value> ReplaceMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const MarkedText* const from, TextArgument(*bound.at[0], "old"));
  OUTRIDER_ASSIGN(const MarkedText* const to, TextArgument(*bound.at[1], "new"));
  OUTRIDER_ASSIGN(const int64_t max_count, IntArgument(bound.at[2], "count", -1));
  OUTRIDER_TRY(
      runtime.CountBytes(text->size() + BytesAfterReplace(*text, from->text(), *to, max_count)));
  return Value::Text(Replace(*text, from->text(), *to, max_count));
}

Result<Value> JoinMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const between, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const std::vector<Value> items, runtime.ItemsOf(*bound.at[0]));
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    OUTRIDER_ASSIGN(const MarkedText* const item, TextArgument(items[i], "an item to join"));
    OUTRIDER_TRY(runtime.CountBytes(between->size() + item->size()));
    if (i > 0) out.Append(*between);
    out.Append(*item);
  }
  return Value::Text(std::move(out));
}

using Change = std::string (*)(std::string_view);

template <Change change>
Result<Value> ChangeMethod(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_TRY(runtime.CountBytes(text->size() * 3));  // a special case has three characters
  return Value::Text(Changed(*text, change(text->text())));
}

// Whether all characters are of a class, and there is at least one.
using CharacterClass = bool (*)(char32_t);

template <CharacterClass is_in>
Result<Value> ClassMethod(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_TRY(runtime.CountBytes(text->size()));
  std::string_view rest = text->text();
  bool all = !rest.empty();
  while (all && !rest.empty()) {
    const Utf8Character character = FirstCharacter(rest);
    all = is_in(character.code);
    rest.remove_prefix(character.size);
  }
  return Value::Bool(all);
}

Result<Value> IsAsciiMethod(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  const std::string& text = self.text();
  return Value::Bool(std::all_of(text.begin(), text.end(), [](char c) { return c >= 0; }));
}

Result<Value> IsPrintableMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  if (self.text().empty()) return Value::Bool(true);
  return ClassMethod<IsPrintable>(runtime, self, bound);
}

Result<Value> CaseMethod(Runtime& runtime, const Value& self, const Bound& bound, bool upper) {
  return FindTest(upper ? "upper" : "lower")->call(runtime, self, bound);
}
Result<Value> IsUpperMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  return CaseMethod(runtime, self, bound, true);
}
Result<Value> IsLowerMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  return CaseMethod(runtime, self, bound, false);
}

// center, ljust and rjust: `side` is the text's side.
template <Side side>
Result<Value> PadMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const int64_t width, IntArgument(*bound.at[0], "width"));
  MarkedText fill(" ");
  if (bound.at[1] != nullptr) {
    OUTRIDER_ASSIGN(const MarkedText* const given, TextArgument(*bound.at[1], "fillchar"));
    if (CountCharacters(given->text()) != 1) {
      return InvalidArgument("fillchar must be one character");
    }
    fill = *given;
  }
  const auto length = static_cast<int64_t>(CountCharacters(text->text()));
  const auto padding = static_cast<size_t>(std::max<int64_t>(width - length, 0));
  const size_t max_bytes = runtime.limits().value_bytes + 1;
  OUTRIDER_TRY(runtime.CountBytes(std::min(padding, max_bytes) * fill.size() + text->size()));
  // CPython's str.center puts the odd space on the left if the width is odd.
  size_t left = side == Side::kRight ? padding : 0;
  if (side == Side::kBoth) left = padding / 2 + (padding & static_cast<size_t>(width) & 1);
  MarkedText out;
  for (size_t i = 0; i < left; ++i) out.Append(fill);
  out.Append(*text);
  for (size_t i = left; i < padding; ++i) out.Append(fill);
  return Value::Text(std::move(out));
}

Result<Value> ZfillMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(self, "the string"));
  OUTRIDER_ASSIGN(const int64_t width, IntArgument(*bound.at[0], "width"));
  const auto length = static_cast<int64_t>(CountCharacters(text->text()));
  const auto padding = static_cast<size_t>(std::max<int64_t>(width - length, 0));
  OUTRIDER_TRY(
      runtime.CountBytes(std::min(padding, runtime.limits().value_bytes + 1) + text->size()));
  const bool has_sign = text->text().starts_with('-') || text->text().starts_with('+');
  MarkedText out;
  if (has_sign) out.Append(*text, {0, 1});
  out.Append(std::string(padding, '0'));
  out.Append(*text, {has_sign ? size_t{1} : size_t{0}, text->size()});
  return Value::Text(std::move(out));
}

Result<Value> FormatMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  return FormatBraces(runtime, self, *bound.all);
}

constexpr Builtin kStringMethods[] = {
    {"capitalize", "", ChangeMethod<Capitalized>},
    {"center", "/width fillchar?", PadMethod<Side::kBoth>},
    {"count", "/sub start? end?", CountMethod},
    {"endswith", "/suffix start? end?", AffixMethod<Side::kRight>},
    {"find", "/sub start? end?", FindTextMethod<Side::kLeft>},
    {"format", "*", FormatMethod},
    {"index", "/sub start? end?", IndexMethod<Side::kLeft>},
    {"isalnum", "", ClassMethod<IsAlnum>},
    {"isalpha", "", ClassMethod<IsAlpha>},
    {"isascii", "", IsAsciiMethod},
    {"isdecimal", "", ClassMethod<IsDecimal>},
    {"isdigit", "", ClassMethod<IsDigit>},
    {"islower", "", IsLowerMethod},
    {"isprintable", "", IsPrintableMethod},
    {"isspace", "", ClassMethod<IsSpace>},
    {"isupper", "", IsUpperMethod},
    {"join", "/iterable", JoinMethod},
    {"ljust", "/width fillchar?", PadMethod<Side::kLeft>},
    {"lower", "", ChangeMethod<Lower>},
    {"lstrip", "/chars?", StripMethod<Side::kLeft>},
    {"partition", "/sep", PartitionMethod<Side::kLeft>},
    {"removeprefix", "/prefix", RemoveAffixMethod<Side::kLeft>},
    {"removesuffix", "/suffix", RemoveAffixMethod<Side::kRight>},
    {"replace", "/old new count?", ReplaceMethod},
    {"rfind", "/sub start? end?", FindTextMethod<Side::kRight>},
    {"rindex", "/sub start? end?", IndexMethod<Side::kRight>},
    {"rjust", "/width fillchar?", PadMethod<Side::kRight>},
    {"rpartition", "/sep", PartitionMethod<Side::kRight>},
    {"rsplit", "sep? maxsplit?", SplitMethod<Side::kRight>},
    {"rstrip", "/chars?", StripMethod<Side::kRight>},
    {"split", "sep? maxsplit?", SplitMethod<Side::kLeft>},
    {"splitlines", "keepends?", SplitLinesMethod},
    {"startswith", "/prefix start? end?", AffixMethod<Side::kLeft>},
    {"strip", "/chars?", StripMethod<Side::kBoth>},
    {"swapcase", "", ChangeMethod<SwapCase>},
    {"title", "", ChangeMethod<Title>},
    {"upper", "", ChangeMethod<Upper>},
    {"zfill", "/width", ZfillMethod},
};

// --- dictionaries ---

Result<Value> GetMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  if (!IsHashable(*bound.at[0])) return InvalidArgument("an unhashable value cannot be a key");
  OUTRIDER_TRY(runtime.CountSteps(bound.at[0]->extent().weight));
  if (const Value* found = self.dict().Find(*bound.at[0])) return *found;
  return bound.at[1] == nullptr ? Value() : *bound.at[1];
}

Result<Value> KeysMethod(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(std::vector<Value> keys, runtime.ItemsOf(self));
  return runtime.NewItems(Flavor::kKeys, std::move(keys));
}

Result<Value> ValuesMethod(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  std::vector<Value> values;
  for (const Dict::Entry& entry : self.dict().entries()) values.push_back(entry.value);
  return runtime.NewItems(Flavor::kValues, std::move(values));
}

Result<Value> ItemsMethod(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(std::vector<Value> items, EntriesOf(runtime, self.dict()));
  return runtime.NewItems(Flavor::kItems, std::move(items));
}

Result<Value> CopyMethod(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return self;  // it is immutable
}

constexpr Builtin kDictMethods[] = {
    {"copy", "", CopyMethod}, {"get", "/key default?", GetMethod}, {"items", "", ItemsMethod},
    {"keys", "", KeysMethod}, {"values", "", ValuesMethod},
};

// --- lists and tuples ---

Result<Value> ListIndexMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  const auto& items = self.sequence().items;
  const auto length = static_cast<int64_t>(items.size());
  OUTRIDER_ASSIGN(int64_t from, IntArgument(bound.at[1], "start", 0));
  OUTRIDER_ASSIGN(int64_t to, IntArgument(bound.at[2], "stop", length));
  if (from < 0) from = std::max<int64_t>(from + length, 0);
  if (to < 0) to += length;
  for (int64_t i = from; i < std::min(to, length); ++i) {
    OUTRIDER_ASSIGN(const bool equal, runtime.Equal(items[static_cast<size_t>(i)], *bound.at[0]));
    if (equal) return Value::Int(i);
  }
  return InvalidArgument("the value is not in the list");
}

Result<Value> ListCountMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  int64_t count = 0;
  for (const Value& item : self.sequence().items) {
    OUTRIDER_ASSIGN(const bool equal, runtime.Equal(item, *bound.at[0]));
    count += equal ? 1 : 0;
  }
  return Value::Int(count);
}

constexpr Builtin kListMethods[] = {
    {"copy", "", CopyMethod},
    {"count", "/value", ListCountMethod},
    {"index", "/value start? stop?", ListIndexMethod},
};
constexpr std::span<const Builtin> kTupleMethods = std::span(kListMethods).subspan(1);

// --- loops ---

Result<Value> CycleMethod(Runtime& /*runtime*/, const Value& self, const Bound& bound) {
  const auto& values = bound.all->positional;
  if (values.empty() || !bound.all->named.empty()) {
    return InvalidArgument("loop.cycle takes the values to cycle through");
  }
  return values[self.loop()->index0() % values.size()];
}

Result<Value> ChangedMethod(Runtime& runtime, const Value& self, const Bound& bound) {
  for (const Value& value : bound.all->positional) {
    OUTRIDER_TRY(runtime.CountSteps(value.extent().weight));
  }
  return Value::Bool(self.loop()->Changed(bound.all->positional));
}

constexpr Builtin kLoopMethods[] = {{"changed", "*", ChangedMethod}, {"cycle", "*", CycleMethod}};

// --- methods by type ---

using Names = std::span<const std::string_view>;

struct Methods {
  std::span<const Builtin> served;
  Names changing;     // refused: values are immutable
  Names unsupported;  // they exist in Python, but not here
};

constexpr std::string_view kStringUnsupported[] = {"casefold",   "encode",       "expandtabs",
                                                   "format_map", "isidentifier", "isnumeric",
                                                   "istitle",    "maketrans",    "translate"};
constexpr std::string_view kDictChanging[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kDictUnsupported[] = {"fromkeys"};
constexpr std::string_view kListChanging[] = {"append", "clear",  "extend",  "insert",
                                              "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kRangeUnsupported[] = {"start", "step", "stop"};
constexpr std::string_view kViewUnsupported[] = {"isdisjoint", "mapping"};
constexpr std::string_view kGeneratorUnsupported[] = {"close", "send", "throw"};
constexpr std::string_view kNumberUnsupported[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
    "numerator",        "real",      "to_bytes"};
constexpr std::string_view kMacroUnsupported[] = {
    "arguments", "caller", "catch_kwargs", "catch_varargs", "explicit_caller", "name"};

Methods MethodsOf(const Value& object) {
  switch (object.kind()) {
    case Kind::kString: return {kStringMethods, {}, kStringUnsupported};
    case Kind::kDict: return {kDictMethods, kDictChanging, kDictUnsupported};
    case Kind::kLoop: return {kLoopMethods, {}, {}};
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kLongInt: return {{}, {}, kNumberUnsupported};
    case Kind::kMacro: return {{}, {}, kMacroUnsupported};
    case Kind::kSequence: break;
    default: return {};
  }
  switch (object.sequence().flavor) {
    case Flavor::kList: return {kListMethods, kListChanging, {}};
    case Flavor::kTuple:
    case Flavor::kGroup: return {kTupleMethods, {}, {}};
    case Flavor::kRange: return {kTupleMethods, {}, kRangeUnsupported};
    case Flavor::kKeys:
    case Flavor::kItems:
    case Flavor::kValues: return {{}, {}, kViewUnsupported};
    case Flavor::kGenerator: return {{}, {}, kGeneratorUnsupported};
  }
  return {};
}

bool IsAmong(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Result<std::optional<Value>> FindMethod(const Value& object, std::string_view name) {
  const Methods methods = MethodsOf(object);
  for (const Builtin& method : methods.served) {
    if (method.name == name) {
      return std::optional(Value::Of(std::make_shared<const Function>(Function{&method, object})));
    }
  }
  const std::string type(TypeName(object));
  if (IsAmong(methods.changing, name)) {
    return std::optional(Value::Undefined("'" + std::string(name) + "' would change a " + type +
                                          ", and values never change here"));
  }
  if (IsAmong(methods.unsupported, name)) {
    return InvalidArgument("'" + std::string(name) + "' of a " + type + " is not supported");
  }
  return std::optional<Value>();
}

}  // namespace outrider::jinja
