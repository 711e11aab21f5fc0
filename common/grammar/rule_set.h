// The intermediate form of every grammar source: rules, each an expression over bytes, characters
// and other rules. Sources build it (regex.h, gbnf.h, json_schema.h), the compiler reads it
// (automaton_builder.h).
//
// Beyond a limit the set stops growing, and status() says which limit it was, so a source adds its
// parts and checks once, at its end.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/code_points.h"
#include "common/grammar/limits.h"

namespace outrider::grammar {

using ExprId = int32_t;  // parts have smaller ids than the whole
using RuleId = int32_t;

inline constexpr int kUnbounded = -1;
inline constexpr ExprId kNoExpr = -1;
inline constexpr size_t kMaxShownName = 80;  // bytes of a rule's name in messages

// A member of an object: its beginning, which is never a prefix of another field's key, and its
// rest.
struct Field {
  std::string key;
  ExprId value = kNoExpr;
  bool is_required = false;
};

// A state of an automaton whose edges match expressions.
struct ExprState {
  std::vector<std::pair<ExprId, uint32_t>> edges;  // with their target states
  bool accepts = false;
};

struct Expr {
  enum class Kind : uint8_t {
    kBytes,       // `bytes`; none: the empty text
    kCharacters,  // a character of `characters`, in UTF-8
    kSequence,    // `parts`
    kChoice,      // one of `parts`; without parts: matches nothing
    kRepeat,      // parts[0], `min` to `max` times (kUnbounded)
    kRule,        // what `rule` matches
    kFields,      // see RuleSet::Fields
    kStates,      // see RuleSet::States
  };
  Kind kind = Kind::kBytes;
  int min = 0, max = 0;
  RuleId rule = 0;
  int depth = 1;     // nesting of parts
  int64_t size = 1;  // approximate number of automaton states
  std::string bytes;
  std::vector<CodePointRange> characters;
  std::vector<ExprId> parts;
  std::vector<Field> fields;  // for kFields, whose `parts` are the rest, if any, and the separator
  std::vector<ExprState> states;
};

struct Rule {
  std::string name;  // for messages
  ExprId body = kNoExpr;
  // A counted rule matches its body this many times, never empty. 0: it is not counted.
  int min_count = 0;
  int max_count = 0;  // or kUnbounded
};

class RuleSet {
 public:
  explicit RuleSet(const GrammarLimits& limits) : limits_(limits), budget_(limits.steps) {}

  const GrammarLimits& limits() const { return limits_; }
  const Status& status() const { return status_; }
  // The steps left for compiling: parsing the source and building the automaton.
  StepBudget& budget() { return budget_; }
  // Charges `steps` to the budget. Returns false if it is spent; status() then says so.
  bool Spend(int64_t steps);
  const std::vector<Expr>& exprs() const { return exprs_; }
  const std::vector<Rule>& rules() const { return rules_; }

  ExprId Empty() { return Bytes(""); }
  ExprId Bytes(std::string_view bytes);
  ExprId Characters(const CodePointSet& set);
  ExprId Sequence(std::vector<ExprId> parts);
  ExprId Choice(std::vector<ExprId> parts);
  ExprId Repeat(ExprId part, int min, int max);
  ExprId Optional(ExprId part) { return Repeat(part, 0, 1); }
  ExprId Ref(RuleId rule);
  // Some of `fields` in order, separated by `separator`; required ones are always included. `rest`,
  // unless kNoExpr: any number of these may follow, also separated.
  ExprId Fields(ExprId separator, std::vector<Field> fields, ExprId rest);

  // The paths from the first of `states` to an accepting one.
  ExprId States(std::vector<ExprState> states);

  // A rule whose body is set later, so that rules can refer to each other. `name`: for messages,
  // which show its beginning.
  RuleId DeclareRule(std::string_view name);
  void SetBody(RuleId rule, ExprId body) { rules_[static_cast<size_t>(rule)].body = body; }
  // The counted rule for these, made when first needed.
  RuleId CountedRule(ExprId body, int min, int max);
  // `expr` itself if it is small, else a rule that matches it, for repeated use.
  ExprId Shared(ExprId expr);

  // Keeps the first failure.
  void Fail(std::string why);
  // For GrammarLimits::bytes.
  void FailBytes();

 private:
  ExprId Add(Expr expr);

  const GrammarLimits limits_;
  StepBudget budget_;
  Status status_;
  std::vector<Expr> exprs_ = std::vector<Expr>(1);  // the first one is returned by a failed Add
  std::vector<Rule> rules_;
  std::map<std::tuple<ExprId, int, int>, RuleId> counted_;
};

// A repetition whose copies would take more states becomes a counted rule.
inline constexpr int64_t kMaxCopiedStates = 512;

// Whether a repetition of a part of `size` states becomes a counted rule.
inline bool IsCounted(int64_t size, int min, int max) {
  return size * (max == kUnbounded ? min : max) > kMaxCopiedStates;
}

}  // namespace outrider::grammar
