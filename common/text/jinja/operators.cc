// Python's operators.
#include <cmath>
#include <limits>
#include <utility>

#include "common/text/jinja/python_text.h"
#include "common/text/jinja/runtime.h"

namespace outrider::jinja {
namespace {

using Kind = Value::Kind;
using Flavor = Sequence::Flavor;

Status Overflow(std::string_view symbol) {
  return InvalidArgument("the result of '" + std::string(symbol) + "' does not fit in 64 bits");
}

Status DivisionByZero() { return InvalidArgument("division by zero"); }

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Result<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return DivisionByZero();
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t power = 1;
  if (base == 0 || base == 1) return Value::Int(exponent == 0 ? 1 : base);
  if (base == -1) return Value::Int(exponent % 2 == 0 ? 1 : -1);
  for (; exponent > 0; --exponent) {  // at most 63 times, then it overflows
    if (__builtin_mul_overflow(power, base, &power)) return Overflow("**");
  }
  return Value::Int(power);
}

Result<Value> IntegerOperation(char symbol, bool doubled, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (symbol) {
    case '+':
      if (__builtin_add_overflow(a, b, &out)) return Overflow("+");
      return Value::Int(out);
    case '-':
      if (__builtin_sub_overflow(a, b, &out)) return Overflow("-");
      return Value::Int(out);
    case '*':
      if (doubled) return IntegerPower(a, b);
      if (__builtin_mul_overflow(a, b, &out)) return Overflow("*");
      return Value::Int(out);
    default: break;
  }
  if (b == 0) return DivisionByZero();
  if (symbol == '/' && !doubled) {
    return Value::Float(static_cast<double>(a) / static_cast<double>(b));
  }
  if (b == -1) {  // the only quotient that overflows
    if (symbol == '%') return Value::Int(0);
    if (a == std::numeric_limits<int64_t>::min()) return Overflow("//");
  }
  const int64_t quotient = FloorDivide(a, b);
  return Value::Int(symbol == '%' ? a - quotient * b : quotient);
}

// float.__mod__: the sign of the divisor.
double FloorModulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) remainder += b;
  } else {
    remainder = std::copysign(0.0, b);
  }
  return remainder;
}

// float.__floordiv__ as CPython computes it.
double FloorQuotient(double a, double b) {
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Result<Value> FloatOperation(char symbol, bool doubled, double a, double b) {
  switch (symbol) {
    case '+': return Value::Float(a + b);
    case '-': return Value::Float(a - b);
    case '*': break;
    default:
      if (b == 0) return DivisionByZero();
      if (symbol == '%') return Value::Float(FloorModulo(a, b));
      return Value::Float(doubled ? FloorQuotient(a, b) : a / b);
  }
  if (!doubled) return Value::Float(a * b);
  if (a == 0 && b < 0) return DivisionByZero();
  const double power = std::pow(a, b);
  if (std::isnan(power) && !std::isnan(a) && !std::isnan(b)) {
    return InvalidArgument("complex numbers are not supported");
  }
  if (std::isinf(power) && !std::isinf(a) && !std::isinf(b)) return Overflow("**");
  return Value::Float(power);
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

// A string as part of one made by `safe`.
MarkedText AsMarkup(const String& string) {
  if (string.markup) return string.marked;
  MarkedText out;
  string.marked.ForEachPart(
      [&](std::string_view part, bool from_request) { out.Append(Escaped(part), from_request); });
  return out;
}

}  // namespace

Status NoSuchOperator(std::string_view symbol, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) return InvalidArgument(value->undefined_reason());
  }
  return InvalidArgument("'" + std::string(symbol) + "' is not defined between " +
                         std::string(TypeName(a)) + " and " + std::string(TypeName(b)));
}

Result<Value> EscapeText(Runtime& runtime, const Value& value) {
  if (value.is_string() && value.string().markup) return value;
  OUTRIDER_ASSIGN(MarkedText text, runtime.TextOf(value));
  OUTRIDER_TRY(runtime.CountBytes(text.size() * 5));
  return Value::Of(
      std::make_shared<const String>(String{AsMarkup(String{std::move(text), false}), true}));
}

Result<bool> Runtime::Equal(const Value& a, const Value& b) {
  OUTRIDER_TRY(CountSteps(std::min(a.extent().weight, b.extent().weight)));
  return IsEqual(a, b);
}

Result<bool> Runtime::Less(const Value& a, const Value& b) {
  OUTRIDER_TRY(CountSteps(std::min(a.extent().weight, b.extent().weight)));
  return IsLess(a, b);
}

Result<bool> Runtime::Contains(const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kUndefined: return false;
    case Kind::kString: {
      if (!item.is_string()) return NoSuchOperator("in", item, container);
      OUTRIDER_TRY(CountReading(container.text().size() + item.text().size()));
      return container.text().find(item.text()) != std::string::npos;
    }
    case Kind::kDict: {
      if (!IsHashable(item)) return InvalidArgument("an unhashable value cannot be a key");
      OUTRIDER_TRY(CountSteps(item.extent().weight));
      return container.dict().Find(item) != nullptr;
    }
    case Kind::kSequence: {
      Sequence& sequence = container.sequence();
      size_t pos = sequence.next;
      bool found = false;
      for (; pos < sequence.items.size() && !found; ++pos) {
        OUTRIDER_ASSIGN(found, Equal(sequence.items[pos], item));
      }
      if (sequence.flavor == Flavor::kGenerator) sequence.next = pos;
      return found;
    }
    default: return NoSuchOperator("in", item, container);
  }
}

Result<bool> Runtime::Compare(std::string_view comparison, const Value& a, const Value& b) {
  if (comparison == "==") return Equal(a, b);
  if (comparison == "in") return Contains(b, a);
  if (comparison == "<") return Less(a, b);
  if (comparison == ">") return Less(b, a);
  if (comparison == "!=") {
    OUTRIDER_ASSIGN(const bool equal, Equal(a, b));
    return !equal;
  }
  if (comparison == "not in") {
    OUTRIDER_ASSIGN(const bool contains, Contains(b, a));
    return !contains;
  }
  // <= and >=: NaN is neither less nor equal.
  const bool swap = comparison == ">=";
  OUTRIDER_ASSIGN(const bool less, swap ? Less(b, a) : Less(a, b));
  if (less) return true;
  return Equal(a, b);
}

Result<Value> Runtime::Add(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    if (a.string().markup || b.string().markup) {
      MarkedText both = AsMarkup(a.string());
      both.Append(AsMarkup(b.string()));
      OUTRIDER_TRY(CountBytes(both.size()));
      return Value::Of(std::make_shared<const String>(String{std::move(both), true}));
    }
    OUTRIDER_TRY(CountBytes(a.text().size() + b.text().size()));
    MarkedText both = a.marked();
    both.Append(b.marked());
    return Value::Text(std::move(both));
  }
  if (a.Is(Kind::kSequence) && b.Is(Kind::kSequence)) {
    const auto flavor = [](const Value& value) {
      const Flavor own = value.sequence().flavor;
      return own == Flavor::kGroup ? Flavor::kTuple : own;
    };
    const bool joins = flavor(a) == flavor(b) && flavor(a) <= Flavor::kTuple;
    if (!joins) return NoSuchOperator("+", a, b);
    OUTRIDER_TRY(
        CountBytes((a.sequence().items.size() + b.sequence().items.size()) * sizeof(Value)));
    std::vector<Value> items = a.sequence().items;
    items.insert(items.end(), b.sequence().items.begin(), b.sequence().items.end());
    return NewSequence(flavor(a), std::move(items));
  }
  return NoSuchOperator("+", a, b);
}

Result<Value> Runtime::Repeat(const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  const size_t size =
      value.is_string() ? value.text().size() : value.sequence().items.size() * sizeof(Value);
  size_t bytes = 0;
  if (__builtin_mul_overflow(size, count, &bytes)) bytes = limits_.value_bytes + 1;
  OUTRIDER_TRY(CountBytes(std::min(bytes, limits_.value_bytes + 1)));
  if (value.is_string()) {
    OUTRIDER_ASSIGN(const MarkedText* const text, TextArgument(value, "what is repeated"));
    MarkedText out;
    if (text->empty()) return Value::Text(std::move(out));
    for (size_t i = 0; i < count; ++i) out.Append(*text);
    return Value::Text(std::move(out));
  }
  const Flavor flavor = value.sequence().flavor;
  if (flavor > Flavor::kGroup) return NoSuchOperator("*", value, Value::Int(times));
  std::vector<Value> items;
  const auto& once = value.sequence().items;
  for (size_t i = 0; i < count && !once.empty(); ++i) {
    items.insert(items.end(), once.begin(), once.end());
  }
  return NewSequence(flavor == Flavor::kGroup ? Flavor::kTuple : flavor, std::move(items));
}

Result<Value> Runtime::Binary(std::string_view symbol, const Value& a, const Value& b) {
  const bool doubled = symbol.size() == 2;
  if (const auto x = a.AsInt(), y = b.AsInt(); x.has_value() && y.has_value()) {
    return IntegerOperation(symbol[0], doubled, *x, *y);
  }
  if (const auto x = a.AsNumber(), y = b.AsNumber(); x.has_value() && y.has_value()) {
    return FloatOperation(symbol[0], doubled, *x, *y);
  }
  const auto repeats = [](const Value& value, const Value& times) {
    return (value.is_string() || value.Is(Kind::kSequence)) && times.AsInt().has_value();
  };
  if (symbol == "+") return Add(a, b);
  if (symbol == "%" && a.is_string()) return FormatPercent(*this, a, b);
  if (symbol == "*" && repeats(a, b)) return Repeat(a, *b.AsInt());
  if (symbol == "*" && repeats(b, a)) return Repeat(b, *a.AsInt());
  return NoSuchOperator(symbol, a, b);
}

}  // namespace outrider::jinja
