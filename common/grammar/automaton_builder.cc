#include "common/grammar/automaton_builder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/grammar/follow_sets.h"
#include "common/grammar/nfa.h"

namespace outrider::grammar {
namespace {

// Whether `expr` matches the empty text regardless of its parts.
bool IsAlwaysNullable(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::kBytes: return expr.bytes.empty();
    case Expr::Kind::kSequence: return expr.parts.empty();
    case Expr::Kind::kRepeat: return expr.min == 0;
    case Expr::Kind::kStates: return expr.states[0].accepts;
    case Expr::Kind::kFields:
      return std::none_of(expr.fields.begin(), expr.fields.end(),
                          [](const Field& field) { return field.is_required; });
    default: return false;
  }
}

// Which expressions match the empty text: the least solution, propagated from parts to wholes.
// Time: linear.
std::vector<bool> FindNullable(const RuleSet& rules) {
  const std::vector<Expr>& exprs = rules.exprs();
  std::vector<bool> out(exprs.size(), false);
  std::vector<std::vector<size_t>> users(exprs.size());
  std::vector<size_t> missing(exprs.size(), 1);  // parts that must become nullable
  std::vector<size_t> found;
  for (size_t id = 0; id < exprs.size(); ++id) {
    const Expr& expr = exprs[id];
    for (const ExprId part : expr.parts) users[static_cast<size_t>(part)].push_back(id);
    if (expr.kind == Expr::Kind::kRule) {
      const ExprId body = rules.rules()[static_cast<size_t>(expr.rule)].body;
      users[static_cast<size_t>(body)].push_back(id);
    }
    if (expr.kind == Expr::Kind::kSequence) missing[id] = expr.parts.size();
    out[id] = IsAlwaysNullable(expr);
    if (out[id]) found.push_back(id);
  }
  while (!found.empty()) {
    const size_t part = found.back();
    found.pop_back();
    for (const size_t id : users[part]) {
      if (out[id] || exprs[id].kind == Expr::Kind::kFields || --missing[id] > 0) continue;
      out[id] = true;
      found.push_back(id);
    }
  }
  return out;
}

// A node of the automaton under construction.
struct Edges {
  std::vector<ByteEdge> bytes;
  std::vector<CallEdge> calls;
  std::vector<uint32_t> tail_calls;
  uint32_t rule = 0;
  bool accepts = false;
};

}  // namespace

class AutomatonAssembler {
 public:
  AutomatonAssembler(RuleSet& rules, RuleId root)
      : rules_(rules), budget_(rules.budget()), root_(root) {}

  Result<Automaton> Build() {
    const std::vector<bool> nullable = FindNullable(rules_);
    IdOf(root_);
    for (size_t i = 0; i < order_.size(); ++i) OUTRIDER_TRY(AddRule(i, nullable));
    OUTRIDER_TRY(CheckBudget());
    MakeTailCalls();
    DropUnfinishable();
    if (!productive_[starts_[0]]) return InvalidArgument("no text matches the grammar");
    Assemble();
    OUTRIDER_TRY(FillFirstAndFollow(out_, out_.rules_, budget_));
    OUTRIDER_TRY(CheckBudget());
    return std::move(out_);
  }

 private:
  Status CheckBudget() const {
    rules_.Spend(0);
    if (bytes_ > rules_.limits().bytes) rules_.FailBytes();
    OUTRIDER_TRY(rules_.status());
    if (nodes_.size() > static_cast<size_t>(rules_.limits().nodes)) {
      return InvalidArgument("the grammar takes more than " +
                             std::to_string(rules_.limits().nodes) +
                             " states; use fewer or shorter parts");
    }
    return Status();
  }

  // Rules are numbered in the order of discovery.
  uint32_t IdOf(RuleId rule) {
    const auto index = static_cast<size_t>(rule);
    if (ids_.size() <= index) ids_.resize(index + 1, -1);
    if (ids_[index] < 0) {
      ids_[index] = static_cast<int64_t>(order_.size());
      order_.push_back(rule);
    }
    return static_cast<uint32_t>(ids_[index]);
  }

  Status AddRule(size_t i, const std::vector<bool>& nullable) {
    const Rule rule = rules_.rules()[static_cast<size_t>(order_[i])];
    Nfa nfa(rules_, nullable, budget_);
    nfa.Build(rule.body);
    std::vector<RuleNode> nodes = nfa.Compile(/*needs_text=*/rule.max_count != 0);
    const auto base = static_cast<uint32_t>(nodes_.size());
    starts_.push_back(base);
    bytes_ += sizeof(Automaton::RuleInfo);
    for (RuleNode& node : nodes) {
      for (ByteEdge& edge : node.bytes) edge.target += base;
      for (CallEdge& call : node.calls) {
        call = {IdOf(static_cast<RuleId>(call.rule)), call.target + base};
      }
      bytes_ += node.compiled_bytes();
      nodes_.push_back({.bytes = std::move(node.bytes),
                        .calls = std::move(node.calls),
                        .tail_calls = {},
                        .rule = static_cast<uint32_t>(i),
                        .accepts = node.accepts});
    }
    return CheckBudget();
  }

  // A call at the end of its caller passes its return on; otherwise a right-recursive list would
  // take a frame for each element. This does not apply in counted rules, whose end is not a return.
  void MakeTailCalls() {
    for (Edges& node : nodes_) {
      if (rules_.rules()[static_cast<size_t>(order_[node.rule])].max_count != 0) continue;
      std::erase_if(node.calls, [&](const CallEdge& call) {
        const Edges& target = nodes_[call.target];
        const bool is_last = target.accepts && target.bytes.empty() && target.calls.empty() &&
                             target.tail_calls.empty();
        if (is_last) node.tail_calls.push_back(call.rule);
        return is_last;
      });
    }
  }

  // Finds the nodes from which the end of their rule is reachable, and drops edges to others.
  void DropUnfinishable() {
    // The nodes that may become finishable when a node does: (node, the other one that it needs).
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> dependents(nodes_.size());
    std::vector<uint32_t> found;
    productive_.assign(nodes_.size(), false);
    for (uint32_t id = 0; id < nodes_.size(); ++id) {
      const Edges& node = nodes_[id];
      for (const ByteEdge& edge : node.bytes) dependents[edge.target].push_back({id, edge.target});
      for (const CallEdge& call : node.calls) {
        dependents[starts_[call.rule]].push_back({id, call.target});
        dependents[call.target].push_back({id, starts_[call.rule]});
      }
      for (const uint32_t rule : node.tail_calls) {
        dependents[starts_[rule]].push_back({id, starts_[rule]});
      }
      if (node.accepts) {
        productive_[id] = true;
        found.push_back(id);
      }
    }
    while (!found.empty()) {
      const uint32_t id = found.back();
      found.pop_back();
      for (const auto& [node, needed] : dependents[id]) {
        if (productive_[node] || !productive_[needed]) continue;
        productive_[node] = true;
        found.push_back(node);
      }
    }
    for (Edges& node : nodes_) {
      std::erase_if(node.bytes, [&](const ByteEdge& edge) { return !productive_[edge.target]; });
      std::erase_if(node.calls, [&](const CallEdge& call) {
        return !productive_[call.target] || !productive_[starts_[call.rule]];
      });
      std::erase_if(node.tail_calls, [&](uint32_t rule) { return !productive_[starts_[rule]]; });
    }
  }

  void Assemble() {
    for (size_t i = 0; i < order_.size(); ++i) {
      const Rule& rule = rules_.rules()[static_cast<size_t>(order_[i])];
      out_.rules_.push_back({.start = starts_[i],
                             .min_count = rule.min_count,
                             .max_count = rule.max_count,
                             .first = {},
                             .follow = {},
                             .name = rule.name});
    }
    nodes_.emplace_back();  // marks the end
    for (const Edges& node : nodes_) {
      out_.nodes_.push_back(
          {.byte_edges = static_cast<uint32_t>(out_.byte_edges_.size()),
           .call_edges = static_cast<uint32_t>(out_.call_edges_.size()),
           .tail_calls = static_cast<uint32_t>(out_.tail_calls_.size()),
           .rule = node.rule,
           .accepts = node.accepts,
           .is_plain = !node.accepts && node.calls.empty() && node.tail_calls.empty()});
      out_.byte_edges_.insert(out_.byte_edges_.end(), node.bytes.begin(), node.bytes.end());
      out_.call_edges_.insert(out_.call_edges_.end(), node.calls.begin(), node.calls.end());
      out_.tail_calls_.insert(out_.tail_calls_.end(), node.tail_calls.begin(),
                              node.tail_calls.end());
    }
  }

  RuleSet& rules_;
  StepBudget& budget_;
  const RuleId root_;
  std::vector<int64_t> ids_;   // by RuleId; -1: not reached
  std::vector<RuleId> order_;  // by number
  std::vector<uint32_t> starts_;
  std::vector<Edges> nodes_;
  size_t bytes_ = 0;  // of the compiled automaton, before unfinishable parts are dropped
  std::vector<bool> productive_;
  Automaton out_;
};

Result<Automaton> BuildAutomaton(RuleSet& rules, RuleId root) {
  return AutomatonAssembler(rules, root).Build();
}

}  // namespace outrider::grammar
