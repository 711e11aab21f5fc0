// Rules for the parts of JSON, which the schema reader combines.
//
// White space: one space may follow each `,` and `:`, and there is none elsewhere. So a text has
// few spellings, cannot go on forever, and more of its tokens are forced.
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
  // One character of a string, in every spelling. Both halves of a surrogate pair count as one.
  ExprId Character();
  // The same for a set of characters, each in one spelling: itself, or an escape if necessary.
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
  // A key that is none of `names`. With names it has no escapes, which could spell one of them
  // differently.
  ExprId KeyOtherThan(const std::set<std::string_view>& names);

 private:
  // Returns a rule, which is made when first needed.
  template <class Make>
  ExprId Once(std::optional<RuleId>& id, const char* name, Make make);

  RuleSet& rules_;
  std::optional<RuleId> string_, number_, integer_, value_, object_, array_;
};

// The bounds of an integer.
struct IntegerRange {
  std::optional<int64_t> low, high;
  bool low_is_excluded = false, high_is_excluded = false;
};

// A number as written: the sign is separate, there is no exponent.
struct Decimal {
  bool is_negative = false;
  int64_t whole = 0;     // at least 0
  std::string fraction;  // digits after the point, without zeros at the end
};

// The integers of the range, without -0. An empty choice if there are none.
// REQUIRES: no bound is INT64_MIN or INT64_MAX.
ExprId IntegersIn(RuleSet& rules, IntegerRange range);
// Numbers without exponents that are at least `bound` (above it if `above`), or at most it (below
// it). REQUIRES: its whole part is below INT64_MAX.
ExprId NumbersFrom(RuleSet& rules, const Decimal& bound, bool above);
ExprId NumbersTo(RuleSet& rules, const Decimal& bound, bool below);

}  // namespace outrider::grammar
