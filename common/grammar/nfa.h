// The nondeterministic automaton of one rule (Thompson's construction), and its deterministic form
// (subset construction), in which both calls of rules and bytes are symbols.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/grammar/automaton.h"
#include "common/grammar/limits.h"
#include "common/grammar/rule_set.h"

namespace outrider::grammar {

// Nodes of one rule, with edges among them; node 0 is the start.
struct RuleNode {
  std::vector<ByteEdge> bytes;
  std::vector<CallEdge> calls;
  bool accepts = false;

  // Its size in the compiled automaton.
  size_t compiled_bytes() const {
    return sizeof(Automaton::Node) + bytes.size() * sizeof(ByteEdge) +
           calls.size() * sizeof(CallEdge);
  }
};

class Nfa {
 public:
  // `nullable`: which expressions match the empty text.
  Nfa(RuleSet& rules, const std::vector<bool>& nullable, StepBudget& budget);
  // Builds the automaton of `body`. Repetitions with many copies become counted rules of `rules`.
  // Stops early when the budget is spent, or beyond a few times the nodes of the limits; status()
  // of `rules` reports that.
  void Build(ExprId body);

  // Removes empty edges, and makes the automaton deterministic in bytes and calls if that takes no
  // more than a few times as many nodes. `needs_text`: excludes the empty match. Returns nothing if
  // `rules` failed or the budget is spent; stops early beyond the nodes or bytes of the limits.
  std::vector<RuleNode> Compile(bool needs_text);

 private:
  using State = uint32_t;
  using StateSet = std::vector<State>;  // ascending
  struct Node {
    std::vector<ByteEdge> bytes;
    std::vector<CallEdge> calls;
    std::vector<State> empty;
  };

  bool has_failed() const { return budget_.spent() || !rules_.status().ok(); }
  State NewNode();
  void AddEmpty(State from, State to) { nodes_[from].empty.push_back(to); }
  // Adds what `expr` matches after `from`; returns the state after it.
  State Add(ExprId expr, State from);
  State AddCharacters(const std::vector<CodePointRange>& ranges, State from);
  State AddRepeat(const Expr& expr, State from);
  State AddFields(const Expr& expr, State from);
  State AddStates(const Expr& expr, State from);
  // A trie with the keys of `trie` and `key`, which leads to `end`. REQUIRES: neither `key` nor a
  // key of `trie` is a prefix of another.
  State AddKey(State trie, std::string_view key, State end);
  // A new node with the edges of `node`.
  State CopyNode(State node);
  State AddCall(RuleId rule, bool may_be_empty, State from);

  // All states that empty edges reach from these; only those that have other edges, or end it.
  StateSet Closure(const StateSet& states);
  bool Accepts(const StateSet& closure) const;
  // Returns false if it takes more than `max_nodes` nodes, more bytes than the limits allow, or the
  // budget.
  bool Determinize(size_t max_nodes, std::vector<RuleNode>& out);
  void MergeByteEdges(std::vector<ByteEdge> edges, std::vector<ByteEdge>& out);
  std::vector<RuleNode> KeepStates(size_t max_nodes);
  uint32_t Intern(StateSet set);
  uint32_t Target(StateSet states);

  RuleSet& rules_;
  const std::vector<bool>& nullable_;
  StepBudget& budget_;
  std::vector<Node> nodes_;
  State end_ = 0;
  size_t copied_bytes_ = 0;       // by CopyNode
  std::vector<uint32_t> stamps_;  // the last closure that saw each state
  uint32_t stamp_ = 0;
  std::map<StateSet, uint32_t> ids_;
  std::vector<const StateSet*> sets_;  // by id
};

}  // namespace outrider::grammar
