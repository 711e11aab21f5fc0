#include "common/grammar/rule_set.h"

#include <algorithm>
#include <utility>

#include "common/base/printable.h"

namespace outrider::grammar {
namespace {

constexpr int kMaxDepth = 1000;  // the depth of recursion in compiling
constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr int64_t kSharedSize = 16;

}  // namespace

void RuleSet::Fail(std::string why) {
  if (status_.ok()) status_ = InvalidArgument(std::move(why));
}

void RuleSet::FailBytes() {
  Fail("the compiled grammar takes more than " + std::to_string(limits_.bytes) +
       " bytes; use fewer parts that may be left out or repeated");
}

bool RuleSet::Spend(int64_t steps) {
  if (budget_.Spend(steps)) return true;
  Fail("the grammar takes more than " + std::to_string(limits_.steps) +
       " steps to compile; use fewer or shorter parts");
  return false;
}

ExprId RuleSet::Add(Expr expr) {
  const size_t size =
      expr.bytes.size() + expr.characters.size() + expr.parts.size() + expr.fields.size();
  if (!Spend(1 + static_cast<int64_t>(size))) return 0;
  if (exprs_.size() > static_cast<size_t>(limits_.expressions)) {
    Fail("the grammar has more than " + std::to_string(limits_.expressions) + " parts");
    return 0;
  }
  for (const ExprId part : expr.parts) {
    expr.depth = std::max(expr.depth, exprs_[static_cast<size_t>(part)].depth + 1);
  }
  for (const Field& field : expr.fields) {
    expr.depth = std::max(expr.depth, exprs_[static_cast<size_t>(field.value)].depth + 1);
  }
  if (expr.depth > kMaxDepth) {
    Fail("the grammar is nested deeper than " + std::to_string(kMaxDepth) + " levels");
    return 0;
  }
  expr.size = std::min(expr.size, kMaxSize);
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId RuleSet::Bytes(std::string_view bytes) {
  return Add({.size = static_cast<int64_t>(bytes.size()) + 1, .bytes = std::string(bytes)});
}

ExprId RuleSet::Characters(const CodePointSet& set) {
  std::vector<CodePointRange> ranges = set.Ranges();
  const auto count = static_cast<int64_t>(ranges.size());
  const int64_t size = !ranges.empty() && ranges.back().high > 0x7F ? 8 + count : 1;
  return Add({.kind = Expr::Kind::kCharacters, .size = size, .characters = std::move(ranges)});
}

ExprId RuleSet::Sequence(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  int64_t size = 0;
  for (const ExprId part : parts) size += exprs_[static_cast<size_t>(part)].size;
  return Add({.kind = Expr::Kind::kSequence, .size = size, .parts = std::move(parts)});
}

ExprId RuleSet::Choice(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  int64_t size = 2;
  for (const ExprId part : parts) size += exprs_[static_cast<size_t>(part)].size;
  return Add({.kind = Expr::Kind::kChoice, .size = size, .parts = std::move(parts)});
}

ExprId RuleSet::Repeat(ExprId part, int min, int max) {
  if (std::max(min, max) > limits_.repetitions) {
    Fail("a repetition of " + std::to_string(std::max(min, max)) + " times, at most " +
         std::to_string(limits_.repetitions) + " are supported");
    return 0;
  }
  const int64_t one = exprs_[static_cast<size_t>(part)].size;
  const int64_t size = IsCounted(one, min, max) ? 3 : (one + 1) * std::max({min, max, 1}) + 1;
  return Add({.kind = Expr::Kind::kRepeat, .min = min, .max = max, .size = size, .parts = {part}});
}

ExprId RuleSet::Ref(RuleId rule) { return Add({.kind = Expr::Kind::kRule, .rule = rule}); }

ExprId RuleSet::Fields(ExprId separator, std::vector<Field> fields, ExprId rest) {
  Expr expr{.kind = Expr::Kind::kFields, .fields = std::move(fields)};
  if (rest != kNoExpr) expr.parts.push_back(rest);
  expr.parts.push_back(separator);
  const auto size_of = [&](ExprId id) { return exprs_[static_cast<size_t>(id)].size; };
  for (const ExprId part : expr.parts) expr.size += size_of(part) + size_of(separator);
  for (const Field& field : expr.fields) {
    expr.size += static_cast<int64_t>(field.key.size()) + size_of(field.value) + size_of(separator);
  }
  return Add(std::move(expr));
}

ExprId RuleSet::States(std::vector<ExprState> states) {
  Expr expr{.kind = Expr::Kind::kStates, .size = 1, .states = std::move(states)};
  for (const ExprState& state : expr.states) {
    Spend(1 + static_cast<int64_t>(state.edges.size()));
    ++expr.size;
    for (const auto& [part, target] : state.edges) {
      const Expr& edge = exprs_[static_cast<size_t>(part)];
      expr.size += edge.size;
      expr.depth = std::max(expr.depth, edge.depth + 1);
    }
  }
  return Add(std::move(expr));
}

RuleId RuleSet::DeclareRule(std::string_view name) {
  if (rules_.size() >= static_cast<size_t>(limits_.rules)) {
    Fail("the grammar has more than " + std::to_string(limits_.rules) + " rules");
    return 0;
  }
  rules_.push_back({.name = Printable(name, kMaxShownName)});
  return static_cast<RuleId>(rules_.size() - 1);
}

RuleId RuleSet::CountedRule(ExprId body, int min, int max) {
  const auto [found, is_new] = counted_.try_emplace({body, min, max}, 0);
  if (!is_new) return found->second;
  const RuleId id = found->second = DeclareRule("a repetition");
  if (!status_.ok()) return id;
  rules_.back().body = body;
  rules_.back().min_count = min;
  rules_.back().max_count = max;
  return id;
}

ExprId RuleSet::Shared(ExprId expr) {
  if (exprs_[static_cast<size_t>(expr)].size <= kSharedSize) return expr;
  const RuleId rule = DeclareRule("a shared part");
  SetBody(rule, expr);
  return Ref(rule);
}

}  // namespace outrider::grammar
