#include "common/grammar/follow_sets.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace outrider::grammar {
namespace {

using RuleInfo = Automaton::RuleInfo;

// The rules that `node` calls before it reads a byte.
std::vector<uint32_t> CalledAt(const Automaton& automaton, uint32_t node) {
  std::vector<uint32_t> out;
  for (const CallEdge& call : automaton.call_edges(node)) out.push_back(call.rule);
  for (const uint32_t rule : automaton.tail_calls(node)) out.push_back(rule);
  return out;
}

// Bytes with which `node` can continue. REQUIRES: `first` of the rules that it calls is filled.
ByteSet FirstAt(const Automaton& automaton, const std::vector<RuleInfo>& rules, uint32_t node) {
  ByteSet out;
  for (const ByteEdge& edge : automaton.byte_edges(node)) {
    out |= ByteSet().set() >> static_cast<size_t>(255 - (edge.high - edge.low)) << edge.low;
  }
  for (const uint32_t rule : CalledAt(automaton, node)) out |= rules[rule].first;
  return out;
}

// Fills `first`, called rules before their callers, by a depth-first search of initial calls.
Status FillFirst(const Automaton& automaton, std::vector<RuleInfo>& rules) {
  enum class Visit { kNot, kOpen, kDone };
  struct Open {
    uint32_t rule;
    std::vector<uint32_t> calls;  // those still to visit
  };
  std::vector<Visit> visits(rules.size(), Visit::kNot);
  std::vector<Open> stack;
  const auto open = [&](uint32_t rule) {
    visits[rule] = Visit::kOpen;
    stack.push_back({rule, CalledAt(automaton, rules[rule].start)});
  };
  for (uint32_t root = 0; root < rules.size(); ++root) {
    if (visits[root] != Visit::kNot) continue;
    open(root);
    while (!stack.empty()) {
      Open& top = stack.back();
      if (top.calls.empty()) {
        rules[top.rule].first = FirstAt(automaton, rules, rules[top.rule].start);
        visits[top.rule] = Visit::kDone;
        stack.pop_back();
        continue;
      }
      const uint32_t called = top.calls.back();
      top.calls.pop_back();
      if (visits[called] == Visit::kOpen) {
        return InvalidArgument("the rule " + rules[called].name +
                               " is left-recursive: it refers to itself before it reads anything; "
                               "write it as a repetition");
      }
      if (visits[called] == Visit::kNot) open(called);
    }
  }
  return Status();
}

// Adds the `follow` of each rule to that of the rules that it ends with, until nothing changes.
void SpreadFollow(std::vector<std::vector<uint32_t>>& ends_with, std::vector<RuleInfo>& rules,
                  StepBudget& budget) {
  std::vector<uint32_t> changed;
  for (uint32_t rule = 0; rule < rules.size(); ++rule) {
    changed.push_back(rule);
    std::vector<uint32_t>& ends = ends_with[rule];
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  }
  while (!changed.empty()) {
    const uint32_t caller = changed.back();
    changed.pop_back();
    if (!budget.Spend(1 + static_cast<int64_t>(ends_with[caller].size()))) return;
    for (const uint32_t rule : ends_with[caller]) {
      const ByteSet follow = rules[rule].follow | rules[caller].follow;
      if (follow == rules[rule].follow) continue;
      rules[rule].follow = follow;
      changed.push_back(rule);
    }
  }
}

}  // namespace

Status FillFirstAndFollow(const Automaton& automaton, std::vector<RuleInfo>& rules,
                          StepBudget& budget) {
  OUTRIDER_TRY(FillFirst(automaton, rules));
  // Many calls may continue at one node with many edges, so each node is processed once.
  std::vector<std::optional<ByteSet>> first_at(automaton.num_nodes());
  // By rule, those that end with it: its `follow` includes theirs.
  std::vector<std::vector<uint32_t>> ends_with(rules.size());
  for (uint32_t id = 0; id < automaton.num_nodes(); ++id) {
    const uint32_t caller = automaton.node(id).rule;
    for (const CallEdge& call : automaton.call_edges(id)) {
      std::optional<ByteSet>& first = first_at[call.target];
      if (!first) {
        budget.Spend(static_cast<int64_t>(automaton.byte_edges(call.target).size() +
                                          automaton.call_edges(call.target).size()));
        first = FirstAt(automaton, rules, call.target);
      }
      rules[call.rule].follow |= *first;
      if (!automaton.node(call.target).accepts) continue;
      ends_with[caller].push_back(call.rule);
      if (rules[caller].max_count != 0) rules[call.rule].follow |= rules[caller].first;
    }
    for (const uint32_t rule : automaton.tail_calls(id)) ends_with[caller].push_back(rule);
  }
  SpreadFollow(ends_with, rules, budget);
  return Status();
}

}  // namespace outrider::grammar
