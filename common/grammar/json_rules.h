// The parts of JSON as rules: what the schema reader puts together.
//
// White space: one space may follow each `,` and `:`, and there is none elsewhere. So a text has
// few ways to be written, cannot go on without end, and more of its tokens are forced.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/grammar/rule_set.h"

namespace outrider::grammar {

// `text` as a string of JSON, with its quotes. REQUIRES: well-formed UTF-8.
std::string QuoteJson(std::string_view text);

class JsonRules {
 public:
  explicit JsonRules(RuleSet& rules) : rules_(rules) {}

  ExprId Comma();
  ExprId Colon();
  // One character of a string, in each way to write it. Both halves of a surrogate pair are one.
  ExprId Character();
  // The same for a set of characters, each in one way: itself, or an escape where it needs one.
  static ExprId CharacterOf(RuleSet& rules, const CodePointSet& set);
  ExprId Quoted(ExprId content);
  ExprId String();
  ExprId Number();
  ExprId Integer();
  ExprId Boolean();
  ExprId Null() { return rules_.Bytes("null"); }
  ExprId Value();   // any
  ExprId Object();  // any
  ExprId Array();   // any
  // "[" items "]" and "{" members "}"
  ExprId InBrackets(ExprId items);
  ExprId InBraces(ExprId members);
  // Between `min` and `max` (or kUnbounded) items, separated.
  ExprId List(ExprId item, int min, int max);
  // A key that is none of `names`. Where there are names it has no escapes, by which one of them
  // could be written in another way.
  ExprId KeyOtherThan(const std::set<std::string_view>& names);

 private:
  // A rule that is made when it is first asked for.
  template <class Make>
  ExprId Once(std::optional<RuleId>& id, const char* name, Make make);

  RuleSet& rules_;
  std::optional<RuleId> string_, number_, integer_, value_, object_, array_;
};

// What bounds an integer.
struct IntegerRange {
  std::optional<int64_t> low, high;
  bool low_is_excluded = false, high_is_excluded = false;
};

// A number as it is written: its sign apart, without an exponent.
struct Decimal {
  bool is_negative = false;
  int64_t whole = 0;     // at least 0
  std::string fraction;  // digits after the point, without zeros at the end
};

// The integers of the range. An empty choice where there are none; -0 is not among them.
// REQUIRES: no bound is INT64_MIN or INT64_MAX.
ExprId IntegersIn(RuleSet& rules, IntegerRange range);
// Numbers without exponents that are not below `bound`, or (`above`) above it; not above it, or
// below it. REQUIRES: its whole part is below INT64_MAX.
ExprId NumbersFrom(RuleSet& rules, const Decimal& bound, bool above);
ExprId NumbersTo(RuleSet& rules, const Decimal& bound, bool below);

}  // namespace outrider::grammar
