#include "common/grammar/nfa.h"

#include <algorithm>
#include <tuple>

namespace outrider::grammar {
namespace {

// How many times the nodes of a whole automaton one rule may have before equal nodes are merged.
constexpr size_t kMaxUnmergedNodes = 4;

}  // namespace

Nfa::Nfa(RuleSet& rules, const std::vector<bool>& nullable, StepBudget& budget)
    : rules_(rules), nullable_(nullable), budget_(budget) {}

Nfa::State Nfa::NewNode() {
  budget_.Spend(1);
  const size_t most = kMaxUnmergedNodes * static_cast<size_t>(rules_.limits().nodes);
  if (nodes_.size() >= most) {
    rules_.Fail("a rule of the grammar takes more than " + std::to_string(most) +
                " states before they are merged; use fewer or shorter parts");
    return 0;
  }
  nodes_.emplace_back();
  return static_cast<State>(nodes_.size() - 1);
}

void Nfa::Build(ExprId body) {
  const State start = NewNode();
  end_ = Add(body, start);
}

Nfa::State Nfa::AddCharacters(const std::vector<CodePointRange>& ranges, State from) {
  const State end = NewNode();
  // Sequences share their ends.
  std::map<std::tuple<uint8_t, uint8_t, State>, State> ends;
  for (const CodePointRange& range : ranges) {
    for (const std::vector<ByteRange>& sequence : Utf8Ranges(range)) {
      State next = end;
      for (size_t i = sequence.size() - 1; i > 0; --i) {
        const auto [found, is_new] =
            ends.try_emplace({sequence[i].low, sequence[i].high, next}, State{0});
        if (is_new) {
          found->second = NewNode();
          nodes_[found->second].bytes.push_back({sequence[i].low, sequence[i].high, next});
        }
        next = found->second;
      }
      nodes_[from].bytes.push_back({sequence[0].low, sequence[0].high, next});
      budget_.Spend(1);
    }
  }
  return end;
}

Nfa::State Nfa::AddCall(RuleId rule, bool may_be_empty, State from) {
  const State end = NewNode();
  nodes_[from].calls.push_back({static_cast<uint32_t>(rule), end});
  if (may_be_empty) AddEmpty(from, end);
  return end;
}

Nfa::State Nfa::AddRepeat(const Expr& expr, State from) {
  const ExprId part = expr.parts[0];
  const auto index = static_cast<size_t>(part);
  const int min = nullable_[index] ? 0 : expr.min;  // an empty match can replace the missing ones
  State state = from;
  if (expr.max == 0) return state;
  const int max = expr.max;
  if (IsCounted(rules_.exprs()[index].size, expr.min, max)) {
    return AddCall(rules_.CountedRule(part, std::max(min, 1), max), min == 0, state);
  }
  for (int i = 0; i < min && !has_failed(); ++i) state = Add(part, state);
  const State end = NewNode();
  if (max == kUnbounded) {
    const State loop = NewNode();
    AddEmpty(state, loop);
    AddEmpty(Add(part, loop), loop);
    AddEmpty(loop, end);
    return end;
  }
  for (int i = min; i < max && !has_failed(); ++i) {
    AddEmpty(state, end);
    state = Add(part, state);
  }
  AddEmpty(state, end);
  return end;
}

Nfa::State Nfa::CopyNode(State node) {
  const State copy = NewNode();
  if (has_failed()) return copy;
  const size_t edges = nodes_[node].bytes.size();
  budget_.Spend(static_cast<int64_t>(edges));
  copied_bytes_ += edges * sizeof(ByteEdge);
  if (copied_bytes_ > rules_.limits().bytes) rules_.FailBytes();
  nodes_[copy] = Node(nodes_[node]);
  return copy;
}

// Tries share all nodes except those on the path of the additional key.
Nfa::State Nfa::AddKey(State trie, std::string_view key, State end) {
  const State root = CopyNode(trie);
  State node = root;
  for (size_t i = 0; i < key.size() && !has_failed(); ++i) {
    const auto byte = static_cast<uint8_t>(key[i]);
    const auto has_byte = [byte](const ByteEdge& edge) { return edge.low == byte; };
    const std::vector<ByteEdge>& edges = nodes_[node].bytes;
    const auto found = std::find_if(edges.begin(), edges.end(), has_byte);
    const auto index = static_cast<size_t>(found - edges.begin());
    const bool is_new = found == edges.end();
    const State next = i + 1 == key.size() ? end : is_new ? NewNode() : CopyNode(found->target);
    if (is_new) nodes_[node].bytes.emplace_back();
    nodes_[node].bytes[index] = {byte, byte, next};
    node = next;
  }
  return root;
}

// From the last field to the first, so that the keys that may follow field i form a trie that
// shares all but one key with the next one's: linear in the fields, and deterministic.
Nfa::State Nfa::AddFields(const Expr& expr, State from) {
  const ExprId separator = expr.parts.back();
  const State end = NewNode();
  State after = NewNode();  // after a field
  State keys = NewNode();   // start of the fields that may come next
  bool may_end = true;      // no required field is left
  AddEmpty(after, end);
  if (expr.parts.size() > 1) {
    AddEmpty(Add(separator, after), keys);
    const State rest = NewNode();
    AddEmpty(keys, rest);
    AddEmpty(Add(expr.parts[0], rest), after);
  }
  for (size_t i = expr.fields.size(); i-- > 0 && !has_failed();) {
    const Field& field = expr.fields[i];
    const State key_end = NewNode();
    AddEmpty(Add(field.value, key_end), after);
    if (field.is_required) keys = NewNode();
    may_end = may_end && !field.is_required;
    keys = AddKey(keys, field.key, key_end);
    after = NewNode();
    AddEmpty(Add(separator, after), keys);
    if (may_end) AddEmpty(after, end);
  }
  AddEmpty(from, keys);
  if (may_end) AddEmpty(from, end);
  return end;
}

Nfa::State Nfa::AddStates(const Expr& expr, State from) {
  const State end = NewNode();
  std::vector<State> begins;
  for (size_t i = 0; i < expr.states.size(); ++i) begins.push_back(NewNode());
  AddEmpty(from, begins[0]);
  for (size_t i = 0; i < expr.states.size() && !has_failed(); ++i) {
    for (const auto& [part, target] : expr.states[i].edges) {
      AddEmpty(Add(part, begins[i]), begins[target]);
    }
    if (expr.states[i].accepts) AddEmpty(begins[i], end);
  }
  return end;
}

Nfa::State Nfa::Add(ExprId id, State from) {
  budget_.Spend(1);  // parts without nodes are work as well
  if (has_failed()) return from;
  const Expr& expr = rules_.exprs()[static_cast<size_t>(id)];
  State state = from;
  switch (expr.kind) {
    case Expr::Kind::kBytes:
      for (const char c : expr.bytes) {
        const State next = NewNode();
        nodes_[state].bytes.push_back({static_cast<uint8_t>(c), static_cast<uint8_t>(c), next});
        state = next;
      }
      return state;
    case Expr::Kind::kCharacters: return AddCharacters(expr.characters, from);
    case Expr::Kind::kSequence:
      for (const ExprId part : expr.parts) state = Add(part, state);
      return state;
    case Expr::Kind::kChoice: {
      const State end = NewNode();
      for (const ExprId part : expr.parts) AddEmpty(Add(part, from), end);
      return end;
    }
    case Expr::Kind::kRepeat: return AddRepeat(expr, from);
    case Expr::Kind::kRule: return AddCall(expr.rule, nullable_[static_cast<size_t>(id)], from);
    case Expr::Kind::kFields: return AddFields(expr, from);
    case Expr::Kind::kStates: return AddStates(expr, from);
  }
  return from;
}

Nfa::StateSet Nfa::Closure(const StateSet& states) {
  stamps_.resize(nodes_.size(), 0);
  ++stamp_;
  StateSet stack = states, out;
  for (const State state : stack) stamps_[state] = stamp_;
  while (!stack.empty()) {
    const State state = stack.back();
    stack.pop_back();
    const Node& node = nodes_[state];
    if (!budget_.Spend(1 + static_cast<int64_t>(node.empty.size()))) return {};
    if (state == end_ || !node.bytes.empty() || !node.calls.empty()) out.push_back(state);
    for (const State next : node.empty) {
      if (stamps_[next] == stamp_) continue;
      stamps_[next] = stamp_;
      stack.push_back(next);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool Nfa::Accepts(const StateSet& closure) const {
  return std::binary_search(closure.begin(), closure.end(), end_);
}

uint32_t Nfa::Intern(StateSet set) {
  const auto [found, is_new] =
      ids_.try_emplace(std::move(set), static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(&found->first);
  return found->second;
}

uint32_t Nfa::Target(StateSet states) {
  std::sort(states.begin(), states.end());
  states.erase(std::unique(states.begin(), states.end()), states.end());
  return Intern(Closure(states));
}

// Splits byte ranges at all starts and ends of edges: between two splits the targets are the same.
void Nfa::MergeByteEdges(std::vector<ByteEdge> edges, std::vector<ByteEdge>& out) {
  std::vector<int> cuts;
  for (const ByteEdge& edge : edges) {
    cuts.push_back(edge.low);
    cuts.push_back(edge.high + 1);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::sort(edges.begin(), edges.end(),
            [](const ByteEdge& a, const ByteEdge& b) { return a.low < b.low; });
  size_t begun = 0;
  std::vector<ByteEdge> open;
  for (size_t cut = 0; cut + 1 < cuts.size(); ++cut) {
    while (begun < edges.size() && edges[begun].low <= cuts[cut]) open.push_back(edges[begun++]);
    std::erase_if(open, [&](const ByteEdge& edge) { return edge.high < cuts[cut]; });
    if (open.empty()) continue;
    if (!budget_.Spend(static_cast<int64_t>(open.size()))) return;
    StateSet targets;
    for (const ByteEdge& edge : open) targets.push_back(edge.target);
    const uint32_t target = Target(std::move(targets));
    const auto low = static_cast<uint8_t>(cuts[cut]);
    const auto high = static_cast<uint8_t>(cuts[cut + 1] - 1);
    if (!out.empty() && out.back().target == target && out.back().high + 1 == low) {
      out.back().high = high;
    } else {
      out.push_back({low, high, target});
    }
  }
}

bool Nfa::Determinize(size_t max_nodes, std::vector<RuleNode>& out) {
  const int64_t reserve = budget_.left() / 4 * 3;  // for the other rules
  size_t bytes = 0;
  Intern(Closure({0}));
  for (uint32_t id = 0; id < sets_.size(); ++id) {
    if (sets_.size() > max_nodes || budget_.left() < reserve) return false;
    if (bytes > rules_.limits().bytes) return false;
    const StateSet& set = *sets_[id];
    RuleNode node{.bytes = {}, .calls = {}, .accepts = Accepts(set)};
    std::vector<ByteEdge> edges;
    std::map<uint32_t, StateSet> calls;
    for (const State state : set) {
      edges.insert(edges.end(), nodes_[state].bytes.begin(), nodes_[state].bytes.end());
      for (const CallEdge& call : nodes_[state].calls) calls[call.rule].push_back(call.target);
    }
    MergeByteEdges(std::move(edges), node.bytes);
    for (auto& [rule, targets] : calls) node.calls.push_back({rule, Target(std::move(targets))});
    bytes += node.compiled_bytes();
    out.push_back(std::move(node));
  }
  return !budget_.spent();
}

// One node for each state that is the target of an edge, with the edges of its empty closure.
std::vector<RuleNode> Nfa::KeepStates(size_t max_nodes) {
  std::vector<RuleNode> out;
  std::vector<uint32_t> ids(nodes_.size(), UINT32_MAX);
  std::vector<State> order;
  const auto id_of = [&](State state) {
    if (ids[state] == UINT32_MAX) {
      ids[state] = static_cast<uint32_t>(order.size());
      order.push_back(state);
    }
    return ids[state];
  };
  id_of(0);
  size_t bytes = 0;
  for (size_t next = 0; next < order.size() && !budget_.spent(); ++next) {
    if (bytes > rules_.limits().bytes || out.size() > max_nodes) break;
    const StateSet closure = Closure({order[next]});
    RuleNode node{.bytes = {}, .calls = {}, .accepts = Accepts(closure)};
    for (const State state : closure) {
      for (const ByteEdge& edge : nodes_[state].bytes) {
        node.bytes.push_back({edge.low, edge.high, id_of(edge.target)});
      }
      for (const CallEdge& call : nodes_[state].calls) {
        node.calls.push_back({call.rule, id_of(call.target)});
      }
    }
    budget_.Spend(static_cast<int64_t>(node.bytes.size() + node.calls.size()));
    std::sort(node.bytes.begin(), node.bytes.end(),
              [](const ByteEdge& a, const ByteEdge& b) { return a.low < b.low; });
    bytes += node.compiled_bytes();
    out.push_back(std::move(node));
  }
  return out;
}

std::vector<RuleNode> Nfa::Compile(bool needs_text) {
  if (has_failed()) return {};
  std::vector<RuleNode> out;
  const auto limit = static_cast<size_t>(rules_.limits().nodes);
  if (!Determinize(std::min(1024 + 16 * nodes_.size(), limit), out)) {
    sets_.clear();
    ids_.clear();
    out = KeepStates(limit);
  }
  if (budget_.spent()) return {};
  if (needs_text && out[0].accepts) {
    // A separate start, to which no edge returns.
    const auto copy = static_cast<uint32_t>(out.size());
    out.push_back(out[0]);
    for (RuleNode& node : out) {
      for (ByteEdge& edge : node.bytes) edge.target = edge.target == 0 ? copy : edge.target;
      for (CallEdge& call : node.calls) call.target = call.target == 0 ? copy : call.target;
    }
    out[0].accepts = false;
  }
  return out;
}

}  // namespace outrider::grammar
