#include "common/grammar/json_rules.h"

#include <algorithm>
#include <utility>

#include "common/text/utf8.h"

namespace outrider::grammar {
namespace {

constexpr char kHex[] = "0123456789abcdef";
constexpr char32_t kLastAscii = 0x7F;

// The escape of `c` without its \; "" if it needs none.
std::string EscapeOf(char32_t c) {
  switch (c) {
    case '"': return "\"";
    case '\\': return "\\";
    case '\b': return "b";
    case '\f': return "f";
    case '\n': return "n";
    case '\r': return "r";
    case '\t': return "t";
    default: break;
  }
  if (c >= 0x20) return "";
  return std::string("u00") + kHex[c >> 4] + kHex[c & 15];
}

// Characters that a string contains unescaped.
CodePointSet PlainCharacters() {
  CodePointSet special = CodePointSet::Range(0, 0x1F);
  special.Add('"', '"');
  special.Add('\\', '\\');
  return special.Complement();
}

ExprId HexDigits(RuleSet& rules, std::string_view first, int more) {
  CodePointSet any = CodePointSet::Range('0', '9');
  any.Add('a', 'f');
  any.Add('A', 'F');
  CodePointSet begin;
  for (const char c : first) begin.Add(static_cast<char32_t>(c), static_cast<char32_t>(c));
  std::vector<ExprId> parts = {rules.Characters(begin)};
  for (int i = 0; i < more; ++i) parts.push_back(rules.Characters(any));
  return rules.Sequence(std::move(parts));
}

// Continuations of a key after it differs from all names: any plain characters, also after one that
// is not ASCII. They are rules, because every prefix of a name continues with them.
struct KeyRest {
  ExprId any = kNoExpr;
  ExprId wide = kNoExpr;
};

// The sorted names from `begin` to `end` agree in what precedes `pos`.
ExprId OtherThan(RuleSet& rules, const std::vector<std::string_view>& names, size_t begin,
                 size_t end, size_t pos, const KeyRest& rest) {
  std::vector<ExprId> ways;
  CodePointSet begun;  // characters with which a name continues here
  bool has_wide = false;
  if (names[begin].size() != pos) {
    ways.push_back(rules.Empty());
  } else {
    while (begin < end && names[begin].size() == pos) ++begin;
  }
  while (begin < end && rules.status().ok()) {
    const Utf8Character next = FirstCharacter(names[begin].substr(pos));
    const std::string_view bytes = names[begin].substr(pos, next.size);
    size_t last = begin;
    while (last < end && names[last].substr(pos, next.size) == bytes) ++last;
    begun.Add(next.code, next.code);
    has_wide = has_wide || next.code > kLastAscii;
    // a name without escapes cannot have one that needs an escape
    if (EscapeOf(next.code).empty()) {
      ways.push_back(rules.Sequence(
          {rules.Bytes(bytes), OtherThan(rules, names, begin, last, pos + next.size, rest)}));
    }
    begin = last;
  }
  CodePointSet others = PlainCharacters().Without(begun);
  if (!has_wide) {
    others = others.Without(CodePointSet::Range(kLastAscii + 1, kLastCodePoint));
    ways.push_back(rest.wide);
  }
  ways.push_back(rules.Sequence({rules.Characters(others), rest.any}));
  return rules.Choice(std::move(ways));
}

}  // namespace

std::string QuoteJson(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const std::string escape = EscapeOf(static_cast<unsigned char>(c));
    out += escape.empty() ? std::string(1, c) : "\\" + escape;
  }
  return out + "\"";
}

template <class Make>
ExprId JsonRules::Once(std::optional<RuleId>& id, const char* name, Make make) {
  if (!id) {
    id = rules_.DeclareRule(name);
    rules_.SetBody(*id, make());
  }
  return rules_.Ref(*id);
}

ExprId JsonRules::Comma() {
  return rules_.Sequence({rules_.Bytes(","), rules_.Optional(rules_.Bytes(" "))});
}

ExprId JsonRules::Colon() {
  return rules_.Sequence({rules_.Bytes(":"), rules_.Optional(rules_.Bytes(" "))});
}

ExprId JsonRules::Character() {
  CodePointSet simple;
  for (const char c : std::string_view("\"\\/bfnrt"))
    simple.Add(static_cast<char32_t>(c), static_cast<char32_t>(c));
  const ExprId no_surrogate = rules_.Choice(
      {HexDigits(rules_, "0123456789abcefABCEF", 3),
       rules_.Sequence({HexDigits(rules_, "dD", 0), HexDigits(rules_, "01234567", 2)})});
  const ExprId pair = rules_.Sequence({HexDigits(rules_, "dD", 0), HexDigits(rules_, "89abAB", 2),
                                       rules_.Bytes("\\u"), HexDigits(rules_, "dD", 0),
                                       HexDigits(rules_, "cdefCDEF", 2)});
  const ExprId code = rules_.Sequence({rules_.Bytes("u"), rules_.Choice({no_surrogate, pair})});
  const ExprId escape =
      rules_.Sequence({rules_.Bytes("\\"), rules_.Choice({rules_.Characters(simple), code})});
  return rules_.Choice({rules_.Characters(PlainCharacters()), escape});
}

ExprId JsonRules::CharacterOf(RuleSet& rules, const CodePointSet& set) {
  const CodePointSet plain = PlainCharacters();
  std::vector<ExprId> ways = {rules.Characters(set.Without(plain.Complement()))};
  for (const CodePointRange& range : set.Without(plain).Ranges()) {
    for (char32_t c = range.low; c <= range.high; ++c) {
      ways.push_back(rules.Bytes("\\" + EscapeOf(c)));
    }
  }
  return rules.Choice(std::move(ways));
}

ExprId JsonRules::Quoted(ExprId content) {
  return rules_.Sequence({rules_.Bytes("\""), content, rules_.Bytes("\"")});
}

ExprId JsonRules::String() {
  return Once(string_, "string", [&] { return Quoted(rules_.Repeat(Character(), 0, kUnbounded)); });
}

ExprId JsonRules::Integer() {
  return Once(integer_, "integer", [&] {
    const ExprId digit = rules_.Characters(CodePointSet::Range('0', '9'));
    const ExprId positive = rules_.Sequence(
        {rules_.Characters(CodePointSet::Range('1', '9')), rules_.Repeat(digit, 0, kUnbounded)});
    return rules_.Choice(
        {rules_.Bytes("0"), rules_.Sequence({rules_.Optional(rules_.Bytes("-")), positive})});
  });
}

ExprId JsonRules::Number() {
  return Once(number_, "number", [&] {
    const ExprId digit = rules_.Characters(CodePointSet::Range('0', '9'));
    const ExprId whole = rules_.Choice(
        {rules_.Bytes("0"), rules_.Sequence({rules_.Characters(CodePointSet::Range('1', '9')),
                                             rules_.Repeat(digit, 0, kUnbounded)})});
    const ExprId fraction =
        rules_.Sequence({rules_.Bytes("."), rules_.Repeat(digit, 1, kUnbounded)});
    CodePointSet e = CodePointSet::Range('e', 'e'), sign = CodePointSet::Range('+', '+');
    e.Add('E', 'E');
    sign.Add('-', '-');
    // Two digits, as more would exceed the range of a double.
    const ExprId exponent =
        rules_.Sequence({rules_.Characters(e), rules_.Optional(rules_.Characters(sign)),
                         rules_.Repeat(digit, 1, 2)});
    return rules_.Sequence({rules_.Optional(rules_.Bytes("-")), whole, rules_.Optional(fraction),
                            rules_.Optional(exponent)});
  });
}

ExprId JsonRules::Boolean() { return rules_.Choice({rules_.Bytes("true"), rules_.Bytes("false")}); }

ExprId JsonRules::InBrackets(ExprId items) {
  return rules_.Sequence({rules_.Bytes("["), items, rules_.Bytes("]")});
}

ExprId JsonRules::InBraces(ExprId members) {
  return rules_.Sequence({rules_.Bytes("{"), members, rules_.Bytes("}")});
}

ExprId JsonRules::List(ExprId item, int min, int max) {
  if (max == 0) return rules_.Empty();
  const ExprId shared = rules_.Shared(item);
  const ExprId more = rules_.Repeat(rules_.Sequence({Comma(), shared}), std::max(min - 1, 0),
                                    max == kUnbounded ? kUnbounded : max - 1);
  const ExprId list = rules_.Sequence({shared, more});
  return min == 0 ? rules_.Optional(list) : list;
}

ExprId JsonRules::Value() {
  // Object and Array refer to it before it is complete.
  return Once(value_, "value", [&] {
    return rules_.Choice({Object(), Array(), String(), Number(), Boolean(), Null()});
  });
}

ExprId JsonRules::Object() {
  return Once(object_, "object", [&] {
    return InBraces(List(rules_.Sequence({String(), Colon(), Value()}), 0, kUnbounded));
  });
}

ExprId JsonRules::Array() {
  return Once(array_, "array", [&] { return InBrackets(List(Value(), 0, kUnbounded)); });
}

ExprId JsonRules::KeyOtherThan(const std::set<std::string_view>& names) {
  if (names.empty()) return String();
  const std::vector<std::string_view> sorted(names.begin(), names.end());
  const auto rule_of = [&](const char* name, ExprId body) {
    const RuleId rule = rules_.DeclareRule(name);
    rules_.SetBody(rule, body);
    return rules_.Ref(rule);
  };
  KeyRest rest;
  rest.any = rule_of("the rest of a key",
                     rules_.Repeat(rules_.Characters(PlainCharacters()), 0, kUnbounded));
  const CodePointSet wide = CodePointSet::Range(kLastAscii + 1, kLastCodePoint);
  rest.wide = rule_of("the rest of a key", rules_.Sequence({rules_.Characters(wide), rest.any}));
  return Quoted(OtherThan(rules_, sorted, 0, sorted.size(), 0, rest));
}

}  // namespace outrider::grammar
