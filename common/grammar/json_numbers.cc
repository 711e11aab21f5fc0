// Expresses bounds of numbers as choices over their digits.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/grammar/json_rules.h"

namespace outrider::grammar {
namespace {

ExprId DigitsFrom(RuleSet& rules, char low, char high) {
  return rules.Characters(
      CodePointSet::Range(static_cast<char32_t>(low), static_cast<char32_t>(high)));
}

ExprId AnyDigits(RuleSet& rules, size_t count) {
  const int times = static_cast<int>(count);
  return rules.Repeat(DigitsFrom(rules, '0', '9'), times, times);
}

// Numbers with as many digits as both bounds. REQUIRES: the same size, low <= high.
ExprId SameLength(RuleSet& rules, const std::string& low, const std::string& high) {
  if (low.empty()) return rules.Empty();
  const std::string low_rest = low.substr(1), high_rest = high.substr(1);
  if (low[0] == high[0]) {
    return rules.Sequence({rules.Bytes(low.substr(0, 1)), SameLength(rules, low_rest, high_rest)});
  }
  if (low == std::string(low.size(), '0') && high == std::string(low.size(), '9')) {
    return AnyDigits(rules, low.size());
  }
  const std::string nines(low_rest.size(), '9'), zeros(low_rest.size(), '0');
  std::vector<ExprId> ways;
  ways.push_back(
      rules.Sequence({rules.Bytes(low.substr(0, 1)), SameLength(rules, low_rest, nines)}));
  if (high[0] - low[0] > 1) {
    const ExprId first =
        DigitsFrom(rules, static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1));
    ways.push_back(rules.Sequence({first, AnyDigits(rules, low_rest.size())}));
  }
  ways.push_back(
      rules.Sequence({rules.Bytes(high.substr(0, 1)), SameLength(rules, zeros, high_rest)}));
  return rules.Choice(std::move(ways));
}

// From `low` to `high`, or without an upper bound. REQUIRES: 0 <= low.
ExprId WholeNumbers(RuleSet& rules, int64_t low, std::optional<int64_t> high) {
  std::vector<ExprId> ways;
  const std::string first = std::to_string(low);
  const std::string last = high ? std::to_string(*high) : "";
  if (high && *high < low) return rules.Choice({});
  const size_t longest = high ? last.size() : first.size();
  for (size_t size = first.size(); size <= longest; ++size) {
    const std::string lowest = size == first.size() ? first : "1" + std::string(size - 1, '0');
    const std::string highest = high && size == last.size() ? last : std::string(size, '9');
    ways.push_back(SameLength(rules, lowest, highest));
  }
  if (!high) {
    ways.push_back(rules.Sequence({DigitsFrom(rules, '1', '9'), AnyDigits(rules, first.size()),
                                   rules.Repeat(DigitsFrom(rules, '0', '9'), 0, kUnbounded)}));
  }
  return rules.Choice(std::move(ways));
}

ExprId Negative(RuleSet& rules, ExprId number) {
  return rules.Sequence({rules.Bytes("-"), number});
}

ExprId Digits(RuleSet& rules) { return rules.Repeat(DigitsFrom(rules, '0', '9'), 0, kUnbounded); }

// "" or a point and digits.
ExprId AnyFraction(RuleSet& rules) {
  return rules.Optional(
      rules.Sequence({rules.Bytes("."), DigitsFrom(rules, '0', '9'), Digits(rules)}));
}

// Digits, at least one of them not zero.
ExprId PositiveDigits(RuleSet& rules) {
  return rules.Sequence({Digits(rules), DigitsFrom(rules, '1', '9'), Digits(rules)});
}

// The rest of a fraction from bound[digit] on: at least that of `bound`, or above it.
ExprId FractionFrom(RuleSet& rules, const std::string& bound, size_t digit, bool above) {
  if (digit == bound.size()) return above ? PositiveDigits(rules) : Digits(rules);
  std::vector<ExprId> ways = {rules.Sequence(
      {rules.Bytes(bound.substr(digit, 1)), FractionFrom(rules, bound, digit + 1, above)})};
  if (bound[digit] < '9') {
    const ExprId more = DigitsFrom(rules, static_cast<char>(bound[digit] + 1), '9');
    ways.push_back(rules.Sequence({more, Digits(rules)}));
  }
  return rules.Choice(std::move(ways));
}

// The same: at most that of `bound`, or below it. `bound` does not end with a zero, so a fraction
// that ends earlier is below it.
ExprId FractionTo(RuleSet& rules, const std::string& bound, size_t digit, bool below) {
  if (digit == bound.size()) {
    return below ? rules.Choice({}) : rules.Repeat(rules.Bytes("0"), 0, kUnbounded);
  }
  const bool is_last = digit + 1 == bound.size();
  const ExprId rest = FractionTo(rules, bound, digit + 1, below);
  std::vector<ExprId> ways = {
      rules.Sequence({rules.Bytes(bound.substr(digit, 1)), is_last ? rest : rules.Optional(rest)})};
  if (bound[digit] > '0') {
    const ExprId less = DigitsFrom(rules, '0', static_cast<char>(bound[digit] - 1));
    ways.push_back(rules.Sequence({less, Digits(rules)}));
  }
  return rules.Choice(std::move(ways));
}

// Absolute values that are at least that of `bound`, or above it.
ExprId SizesFrom(RuleSet& rules, const Decimal& bound, bool above) {
  const ExprId whole = rules.Bytes(std::to_string(bound.whole));
  const ExprId point = rules.Bytes(".");
  std::vector<ExprId> ways = {
      rules.Sequence({WholeNumbers(rules, bound.whole + 1, {}), AnyFraction(rules)})};
  if (!bound.fraction.empty()) {
    ways.push_back(rules.Sequence({whole, point, FractionFrom(rules, bound.fraction, 0, above)}));
  } else if (above) {
    ways.push_back(rules.Sequence({whole, point, PositiveDigits(rules)}));
  } else {
    ways.push_back(rules.Sequence({whole, AnyFraction(rules)}));
  }
  return rules.Choice(std::move(ways));
}

// The same: at most that of `bound`, or below it.
ExprId SizesTo(RuleSet& rules, const Decimal& bound, bool below) {
  const ExprId whole = rules.Bytes(std::to_string(bound.whole));
  const ExprId point = rules.Bytes(".");
  std::vector<ExprId> ways = {
      rules.Sequence({WholeNumbers(rules, 0, bound.whole - 1), AnyFraction(rules)})};
  if (!bound.fraction.empty()) {
    const ExprId fraction = FractionTo(rules, bound.fraction, 0, below);
    ways.push_back(rules.Sequence({whole, rules.Optional(rules.Sequence({point, fraction}))}));
  } else if (!below) {
    const ExprId zeros = rules.Repeat(rules.Bytes("0"), 1, kUnbounded);
    ways.push_back(rules.Sequence({whole, rules.Optional(rules.Sequence({point, zeros}))}));
  }
  return rules.Choice(std::move(ways));
}

}  // namespace

ExprId IntegersIn(RuleSet& rules, IntegerRange range) {
  if (range.low && range.low_is_excluded) ++*range.low;
  if (range.high && range.high_is_excluded) --*range.high;
  std::vector<ExprId> ways;
  if (!range.high || *range.high >= 0) {
    ways.push_back(WholeNumbers(rules, std::max<int64_t>(range.low.value_or(0), 0), range.high));
  }
  if (!range.low || *range.low < 0) {
    const int64_t least = range.high ? std::max<int64_t>(-*range.high, 1) : 1;
    std::optional<int64_t> most = range.low;
    if (most) *most = -*most;
    ways.push_back(Negative(rules, WholeNumbers(rules, least, most)));
  }
  return rules.Choice(std::move(ways));
}

ExprId NumbersFrom(RuleSet& rules, const Decimal& bound, bool above) {
  if (!bound.is_negative) return SizesFrom(rules, bound, above);
  return rules.Choice({SizesFrom(rules, Decimal(), /*above=*/false),
                       Negative(rules, SizesTo(rules, bound, above))});
}

ExprId NumbersTo(RuleSet& rules, const Decimal& bound, bool below) {
  if (bound.is_negative) return Negative(rules, SizesFrom(rules, bound, below));
  return rules.Choice(
      {SizesTo(rules, bound, below), Negative(rules, SizesFrom(rules, Decimal(), /*above=*/true))});
}

}  // namespace outrider::grammar
