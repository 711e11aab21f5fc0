// Tests: what follows `is`.
#include <algorithm>

#include "common/text/jinja/builtins.h"
#include "common/text/jinja/python_text.h"
#include "common/text/jinja/runtime.h"
#include "common/text/utf8.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;
using Flavor = Sequence::Flavor;

template <Kind kind>
Result<Value> IsKind(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.Is(kind));
}

Result<Value> IsDefined(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(!self.is_undefined());
}

template <bool wanted>
Result<Value> IsBool(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.Is(Kind::kBool) && self.boolean() == wanted);
}

Result<Value> IsInteger(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.Is(Kind::kInt) || self.Is(Kind::kLongInt));
}

Result<Value> IsNumber(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.AsNumber().has_value() || self.Is(Kind::kLongInt));
}

Result<Value> IsSequence(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.is_undefined() || self.is_string() || self.Is(Kind::kDict) ||
                     (self.Is(Kind::kSequence) && self.sequence().IsIndexed()));
}

Result<Value> IsIterable(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.is_undefined() || self.is_string() || self.Is(Kind::kDict) ||
                     self.Is(Kind::kSequence) || self.Is(Kind::kLoop));
}

Result<Value> IsCallable(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.is_undefined() || self.Is(Kind::kMacro) || self.Is(Kind::kLoop) ||
                     self.Is(Kind::kFunction));
}

Result<Value> IsEscaped(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.is_string() && self.string().markup);
}

Result<Value> IsSameAs(Runtime& /*runtime*/, const Value& self, const Bound& bound) {
  const Value& other = *bound.at[0];
  // Python has a single object for each of these.
  const auto is_single = [](const Value& value) {
    return value.is_none() || value.Is(Kind::kBool) || value.is_undefined();
  };
  if (is_single(self) || is_single(other)) {
    return Value::Bool(self.kind() == other.kind() && IsEqual(self, other));
  }
  if (self.is_string() || self.AsNumber().has_value()) {
    return InvalidArgument("only none, true and false are compared by identity here; use ==");
  }
  return Value::Bool(self.IsSameObject(other));
}

Result<Value> Remainder(Runtime& runtime, const Value& self, const Value& divisor, int64_t wanted) {
  OUTRIDER_ASSIGN(const Value rest, runtime.Binary("%", self, divisor));
  return Value::Bool(IsEqual(rest, Value::Int(wanted)));
}

Result<Value> IsOdd(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  return Remainder(runtime, self, Value::Int(2), 1);
}
Result<Value> IsEven(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  return Remainder(runtime, self, Value::Int(2), 0);
}
Result<Value> IsDivisibleBy(Runtime& runtime, const Value& self, const Bound& bound) {
  return Remainder(runtime, self, *bound.at[0], 0);
}

// str.isupper and str.islower: at least one cased character, and none of the other case.
template <bool upper>
Result<Value> HasCase(Runtime& runtime, const Value& self, const Bound& /*bound*/) {
  OUTRIDER_ASSIGN(const MarkedText text, runtime.TextOf(self));
  bool found = false;
  for (std::string_view rest = text.text(); !rest.empty();) {
    const Utf8Character character = FirstCharacter(rest);
    if (upper ? IsLower(character.code) : IsUpper(character.code)) return Value::Bool(false);
    if (IsTitleCase(character.code)) return Value::Bool(false);
    found = found || (upper ? IsUpper(character.code) : IsLower(character.code));
    rest.remove_prefix(character.size);
  }
  return Value::Bool(found);
}

// The name of the test is the comparison.
template <const char* comparison>
Result<Value> Compares(Runtime& runtime, const Value& self, const Bound& bound) {
  OUTRIDER_ASSIGN(const bool holds, runtime.Compare(comparison, self, *bound.at[0]));
  return Value::Bool(holds);
}
constexpr char kEqual[] = "==", kNotEqual[] = "!=", kLess[] = "<",
               kLessOrEqual[] = "<=", kMore[] = ">", kMoreOrEqual[] = ">=", kIn[] = "in";

Result<Value> IsFilter(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.is_string() && FindFilter(self.text()) != nullptr);
}
Result<Value> IsTest(Runtime& /*runtime*/, const Value& self, const Bound& /*bound*/) {
  return Value::Bool(self.is_string() && FindTest(self.text()) != nullptr);
}

constexpr Builtin kTests[] = {
    {"!=", "/other", Compares<kNotEqual>},
    {"<", "/other", Compares<kLess>},
    {"<=", "/other", Compares<kLessOrEqual>},
    {"==", "/other", Compares<kEqual>},
    {">", "/other", Compares<kMore>},
    {">=", "/other", Compares<kMoreOrEqual>},
    {"boolean", "", IsKind<Kind::kBool>},
    {"callable", "", IsCallable},
    {"defined", "", IsDefined},
    {"divisibleby", "num", IsDivisibleBy},
    {"eq", "/other", Compares<kEqual>},
    {"equalto", "/other", Compares<kEqual>},
    {"escaped", "", IsEscaped},
    {"even", "", IsEven},
    {"false", "", IsBool<false>},
    {"filter", "", IsFilter},
    {"float", "", IsKind<Kind::kFloat>},
    {"ge", "/other", Compares<kMoreOrEqual>},
    {"greaterthan", "/other", Compares<kMore>},
    {"gt", "/other", Compares<kMore>},
    {"in", "seq", Compares<kIn>},
    {"integer", "", IsInteger},
    {"iterable", "", IsIterable},
    {"le", "/other", Compares<kLessOrEqual>},
    {"lessthan", "/other", Compares<kLess>},
    {"lower", "", HasCase<false>},
    {"lt", "/other", Compares<kLess>},
    {"mapping", "", IsKind<Kind::kDict>},
    {"ne", "/other", Compares<kNotEqual>},
    {"none", "", IsKind<Kind::kNone>},
    {"number", "", IsNumber},
    {"odd", "", IsOdd},
    {"sameas", "other", IsSameAs},
    {"sequence", "", IsSequence},
    {"string", "", IsKind<Kind::kString>},
    {"test", "", IsTest},
    {"true", "", IsBool<true>},
    {"undefined", "", IsKind<Kind::kUndefined>},
    {"upper", "", HasCase<true>},
};

}  // namespace

const Builtin* FindTest(std::string_view name) {
  const auto found = std::find_if(std::begin(kTests), std::end(kTests),
                                  [name](const Builtin& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace outrider::jinja
