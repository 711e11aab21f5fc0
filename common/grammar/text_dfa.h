// A deterministic automaton over characters, for combinations of JSON Schema keywords: a pattern
// and a length, bounds and a multiple. It intersects such languages and converts them to one
// expression (Expr::Kind::kStates).
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/code_points.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

class TextDfa {
 public:
  // More states are refused.
  static constexpr size_t kMaxStates = 4096;

  struct Edge {
    char32_t low, high;  // inclusive
    uint32_t target;
  };
  // Its edges are ascending and do not overlap.
  struct State {
    std::vector<Edge> edges;
    bool accepts = false;
  };

  // The texts of `expr`, whose parts are characters, ASCII text, sequences, choices and
  // repetitions. kInvalidArgument: more states than kMaxStates, or the budget of `rules` is spent.
  static Result<TextDfa> FromExpr(RuleSet& rules, ExprId expr);
  // Texts of `min` to `max` characters (or kUnbounded). kInvalidArgument as above.
  static Result<TextDfa> FromLength(RuleSet& rules, int min, int max);
  // Numbers that are multiples of `multiple` * 10^-`digits`, with at most `fraction` digits after
  // the point, without exponent. kInvalidArgument as above. REQUIRES: 0 < multiple < 2^31 / 10, 0
  // <= fraction <= digits.
  static Result<TextDfa> FromMultiples(RuleSet& rules, uint32_t multiple, int digits, int fraction);
  // The texts that both accept. kInvalidArgument as above.
  static Result<TextDfa> Intersect(RuleSet& rules, const TextDfa& a, const TextDfa& b);

  // Its equivalent repetition, if the same set of characters repeats.
  struct Repetition {
    CodePointSet characters;
    int min = 0, max = 0;  // or kUnbounded
  };
  std::optional<Repetition> AsRepetition() const;

  // Converts it to an expression; `write` spells one character of a set.
  ExprId AddTo(RuleSet& rules,
               const std::function<ExprId(RuleSet&, const CodePointSet&)>& write) const;

 private:
  TextDfa() = default;

  std::vector<State> states_;  // the first one is the start
};

}  // namespace outrider::grammar
