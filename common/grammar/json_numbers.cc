// Ranges of numbers as choices over their digits.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/grammar/json_rules.h"

namespace outrider::grammar {
namespace {

ExprId DigitsFrom(RuleSet& rules, char low, char high) {
  return rules.Characters(
      CodePointSet::Of(static_cast<char32_t>(low), static_cast<char32_t>(high)));
}

ExprId AnyDigits(RuleSet& rules, size_t count) {
  const int times = static_cast<int>(count);
  return rules.Repeat(DigitsFrom(rules, '0', '9'), times, times);
}

// Numbers of as many digits as both have. REQUIRES: the same size, low <= high.
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

// From `low` to `high`, or without an end. REQUIRES: 0 <= low.
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

// The range of the absolute values of the numbers below zero; its low end is at least 0.
NumberRange Mirrored(const NumberRange& range) {
  NumberRange out{.low = 0, .high = {}, .low_is_excluded = true, .high_is_excluded = false};
  if (range.high && *range.high < 0) {
    out.low = -*range.high;
    out.low_is_excluded = range.high_is_excluded;
  }
  if (range.low) {
    out.high = -*range.low;
    out.high_is_excluded = range.low_is_excluded;
  }
  return out;
}

// REQUIRES: `range` has a low end, at least 0.
ExprId NotNegative(RuleSet& rules, const NumberRange& range) {
  const ExprId digits = rules.Repeat(DigitsFrom(rules, '0', '9'), 0, kUnbounded);
  const ExprId point = rules.Bytes(".");
  const ExprId fraction =
      rules.Optional(rules.Sequence({point, DigitsFrom(rules, '0', '9'), digits}));
  const ExprId zeros = rules.Repeat(rules.Bytes("0"), 1, kUnbounded);
  const ExprId no_fraction = rules.Optional(rules.Sequence({point, zeros}));
  const ExprId some_fraction = rules.Sequence({point, digits, DigitsFrom(rules, '1', '9'), digits});
  const int64_t low = *range.low;
  if (range.high && *range.high < low) return rules.Choice({});
  if (range.high == low) {
    if (range.low_is_excluded || range.high_is_excluded) return rules.Choice({});
    return rules.Sequence({rules.Bytes(std::to_string(low)), no_fraction});
  }
  std::vector<ExprId> ways;
  std::optional<int64_t> last = range.high;
  if (last) --*last;
  const int64_t first = range.low_is_excluded ? low + 1 : low;
  ways.push_back(rules.Sequence({WholeNumbers(rules, first, last), fraction}));
  if (range.low_is_excluded) {
    ways.push_back(rules.Sequence({rules.Bytes(std::to_string(low)), some_fraction}));
  }
  if (range.high && !range.high_is_excluded) {
    ways.push_back(rules.Sequence({rules.Bytes(std::to_string(*range.high)), no_fraction}));
  }
  return rules.Choice(std::move(ways));
}

}  // namespace

ExprId IntegersIn(RuleSet& rules, NumberRange range) {
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

ExprId NumbersIn(RuleSet& rules, const NumberRange& range) {
  std::vector<ExprId> ways;
  if (!range.high || *range.high >= 0) {
    NumberRange part = range;
    if (!part.low || *part.low < 0) {
      part.low = 0;
      part.low_is_excluded = false;
    }
    ways.push_back(NotNegative(rules, part));
  }
  if (!range.low || *range.low < 0)
    ways.push_back(Negative(rules, NotNegative(rules, Mirrored(range))));
  return rules.Choice(std::move(ways));
}

}  // namespace outrider::grammar
