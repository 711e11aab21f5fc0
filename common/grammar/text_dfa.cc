#include "common/grammar/text_dfa.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace outrider::grammar {
namespace {

using Edge = TextDfa::Edge;
using StateSet = std::vector<uint32_t>;  // ascending

Status TooManyStates() {
  return InvalidArgument("takes more than " + std::to_string(TextDfa::kMaxStates) +
                         " states; use a shorter or simpler one");
}

// Numbers keys in the order of first use.
template <class Key>
class Numbering {
 public:
  uint32_t Of(Key key) {
    const auto [found, is_new] =
        ids_.try_emplace(std::move(key), static_cast<uint32_t>(ids_.size()));
    if (is_new) keys_.push_back(&found->first);
    return found->second;
  }
  size_t size() const { return keys_.size(); }
  const Key& operator[](size_t id) const { return *keys_[id]; }

 private:
  std::map<Key, uint32_t> ids_;
  std::vector<const Key*> keys_;
};

// A nondeterministic automaton of an expression (Thompson's construction), and subsets of its
// states.
class CharacterNfa {
 public:
  explicit CharacterNfa(RuleSet& rules) : rules_(rules) {}

  Status Build(ExprId expr) {
    NewNode();
    end_ = Add(expr, 0);
    OUTRIDER_TRY(rules_.status());
    return nodes_.size() > kMaxNodes ? TooManyStates() : Status();
  }

  StateSet Start() { return Closure({0}); }
  bool Accepts(const StateSet& set) const {
    return std::binary_search(set.begin(), set.end(), end_);
  }
  // Calls back with the next set for each range of characters between two edge boundaries.
  void ForEachRange(const StateSet& set,
                    const std::function<void(char32_t low, char32_t high, StateSet next)>& visit) {
    std::vector<Edge> edges;
    std::vector<char32_t> cuts;
    for (const uint32_t state : set) {
      edges.insert(edges.end(), nodes_[state].edges.begin(), nodes_[state].edges.end());
    }
    for (const Edge& edge : edges) cuts.insert(cuts.end(), {edge.low, edge.high + 1});
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t cut = 0; cut + 1 < cuts.size(); ++cut) {
      if (!rules_.Spend(1 + static_cast<int64_t>(edges.size()))) return;
      StateSet next;
      for (const Edge& edge : edges) {
        if (edge.low <= cuts[cut] && edge.high >= cuts[cut]) next.push_back(edge.target);
      }
      if (!next.empty()) visit(cuts[cut], cuts[cut + 1] - 1, Closure(std::move(next)));
    }
  }

 private:
  static constexpr size_t kMaxNodes = 8 * TextDfa::kMaxStates;

  struct Node {
    std::vector<Edge> edges;
    std::vector<uint32_t> empty;
  };

  bool has_failed() const { return !rules_.status().ok() || nodes_.size() > kMaxNodes; }
  uint32_t NewNode() {
    rules_.Spend(1);
    nodes_.emplace_back();
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  uint32_t Add(ExprId id, uint32_t from) {
    const Expr& expr = rules_.exprs()[static_cast<size_t>(id)];
    rules_.Spend(1);  // parts without nodes are work as well
    if (has_failed()) return from;
    uint32_t node = from;
    switch (expr.kind) {
      case Expr::Kind::kBytes:
        for (const char c : expr.bytes) {
          const auto code = static_cast<unsigned char>(c);
          node = AddCharacters({{code, code}}, node);
        }
        return node;
      case Expr::Kind::kCharacters: return AddCharacters(expr.characters, from);
      case Expr::Kind::kSequence:
        for (const ExprId part : expr.parts) node = Add(part, node);
        return node;
      case Expr::Kind::kChoice: {
        const uint32_t end = NewNode();
        for (const ExprId part : expr.parts) nodes_[Add(part, from)].empty.push_back(end);
        return end;
      }
      case Expr::Kind::kRepeat: return AddRepeat(expr, from);
      case Expr::Kind::kRule:
      case Expr::Kind::kFields:
      case Expr::Kind::kStates: break;
    }
    rules_.Fail("a part that cannot be intersected");
    return from;
  }

  uint32_t AddCharacters(const std::vector<CodePointRange>& ranges, uint32_t from) {
    const uint32_t end = NewNode();
    for (const CodePointRange& range : ranges) {
      nodes_[from].edges.push_back({range.low, range.high, end});
    }
    rules_.Spend(static_cast<int64_t>(ranges.size()));
    return end;
  }

  uint32_t AddRepeat(const Expr& expr, uint32_t from) {
    const ExprId part = expr.parts[0];
    const int min = expr.min, max = expr.max;
    uint32_t node = from;
    for (int i = 0; i < min && !has_failed(); ++i) node = Add(part, node);
    const uint32_t end = NewNode();
    if (max == kUnbounded) {
      const uint32_t loop = NewNode();
      nodes_[node].empty.push_back(loop);
      nodes_[Add(part, loop)].empty.push_back(loop);
      nodes_[loop].empty.push_back(end);
      return end;
    }
    for (int i = min; i < max && !has_failed(); ++i) {
      nodes_[node].empty.push_back(end);
      node = Add(part, node);
    }
    nodes_[node].empty.push_back(end);
    return end;
  }

  // The empty closure of these states, ascending.
  StateSet Closure(StateSet states) {
    std::vector<bool> seen(nodes_.size(), false);
    StateSet out;
    rules_.Spend(static_cast<int64_t>(nodes_.size() / 64));
    while (!states.empty()) {
      const uint32_t state = states.back();
      states.pop_back();
      if (seen[state]) continue;
      seen[state] = true;
      const Node& node = nodes_[state];
      rules_.Spend(1 + static_cast<int64_t>(node.empty.size()));
      if (state == end_ || !node.edges.empty()) out.push_back(state);
      states.insert(states.end(), node.empty.begin(), node.empty.end());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  RuleSet& rules_;
  std::vector<Node> nodes_;
  uint32_t end_ = 0;
};

// Digits of a number from one state on.
void AddDigits(TextDfa::State& state, uint32_t remainder, uint32_t multiple,
               const std::function<uint32_t(uint32_t)>& state_of) {
  for (char32_t digit = '0'; digit <= '9'; ++digit) {
    state.edges.push_back({digit, digit, state_of((remainder * 10 + (digit - '0')) % multiple)});
  }
}

}  // namespace

Result<TextDfa> TextDfa::FromExpr(RuleSet& rules, ExprId expr) {
  CharacterNfa nfa(rules);
  OUTRIDER_TRY(nfa.Build(expr));
  TextDfa out;
  Numbering<StateSet> sets;
  sets.Of(nfa.Start());
  for (size_t id = 0; id < sets.size(); ++id) {
    if (sets.size() > kMaxStates) return TooManyStates();
    const StateSet set = sets[id];
    State state{.edges = {}, .accepts = nfa.Accepts(set)};
    nfa.ForEachRange(set, [&](char32_t low, char32_t high, StateSet next) {
      const uint32_t target = sets.Of(std::move(next));
      const bool goes_on = !state.edges.empty() && state.edges.back().target == target &&
                           state.edges.back().high + 1 == low;
      if (goes_on) {
        state.edges.back().high = high;
      } else {
        state.edges.push_back({low, high, target});
      }
    });
    OUTRIDER_TRY(rules.status());
    out.states_.push_back(std::move(state));
  }
  return out;
}

Result<TextDfa> TextDfa::FromLength(RuleSet& rules, int min, int max) {
  const int last = max == kUnbounded ? min : max;
  if (static_cast<size_t>(last) >= kMaxStates) return TooManyStates();
  rules.Spend(last + 1);
  OUTRIDER_TRY(rules.status());
  TextDfa out;
  for (int i = 0; i <= last; ++i) {
    State& state = out.states_.emplace_back();
    state.accepts = i >= min;
    const bool is_last = i == last;
    if (is_last && max != kUnbounded) continue;
    state.edges.push_back({0, kLastCodePoint, static_cast<uint32_t>(is_last ? i : i + 1)});
  }
  return out;
}

Result<TextDfa> TextDfa::FromMultiples(RuleSet& rules, uint32_t multiple, int digits,
                                       int fraction) {
  TextDfa out;
  const auto places = static_cast<uint32_t>(fraction);
  // 0 and 1: the start, and after a minus. 2: zero. Then by remainder: whole numbers, and those
  // with a point and 0, 1 .. digits after it.
  const uint64_t size = 3 + uint64_t{multiple} * (places == 0 ? 1 : places + 2);
  if (size > kMaxStates) return TooManyStates();
  rules.Spend(static_cast<int64_t>(10 * size));
  OUTRIDER_TRY(rules.status());
  out.states_.resize(size);
  // `after`: 0 for a whole number, else the digits after the point plus one.
  const auto id_of = [&](uint32_t after, uint32_t remainder) {
    return 3 + after * multiple + remainder;
  };
  const auto is_multiple = [&](uint32_t after, uint32_t remainder) {
    uint64_t value = remainder;
    for (int i = after == 0 ? 0 : static_cast<int>(after) - 1; i < digits; ++i) {
      value = value * 10 % multiple;
    }
    return value == 0;
  };
  for (const uint32_t begin : {0, 1}) {
    if (begin == 0) out.states_[0].edges.push_back({'-', '-', 1});
    if (begin == 0 || places > 0) out.states_[begin].edges.push_back({'0', '0', 2});
    for (char32_t digit = '1'; digit <= '9'; ++digit) {
      out.states_[begin].edges.push_back({digit, digit, id_of(0, (digit - '0') % multiple)});
    }
  }
  out.states_[2].accepts = true;
  if (places > 0) out.states_[2].edges.push_back({'.', '.', id_of(1, 0)});
  for (uint32_t after = 0; after < (places == 0 ? 1 : places + 2); ++after) {
    for (uint32_t remainder = 0; remainder < multiple; ++remainder) {
      State& state = out.states_[id_of(after, remainder)];
      state.accepts = after != 1 && is_multiple(after, remainder);
      if (after == 0 && places > 0) state.edges.push_back({'.', '.', id_of(1, remainder)});
      if (after == places + 1) continue;
      const uint32_t next = after == 0 ? 0 : after + 1;
      AddDigits(state, remainder, multiple, [&](uint32_t r) { return id_of(next, r); });
    }
  }
  return out;
}

Result<TextDfa> TextDfa::Intersect(RuleSet& rules, const TextDfa& a, const TextDfa& b) {
  TextDfa out;
  Numbering<std::pair<uint32_t, uint32_t>> pairs;
  pairs.Of({0, 0});
  for (size_t id = 0; id < pairs.size(); ++id) {
    if (pairs.size() > kMaxStates) return TooManyStates();
    const State &left = a.states_[pairs[id].first], &right = b.states_[pairs[id].second];
    rules.Spend(1 + static_cast<int64_t>(left.edges.size() + right.edges.size()));
    OUTRIDER_TRY(rules.status());
    State state{.edges = {}, .accepts = left.accepts && right.accepts};
    for (auto x = left.edges.begin(), y = right.edges.begin();
         x != left.edges.end() && y != right.edges.end();) {
      const char32_t low = std::max(x->low, y->low), high = std::min(x->high, y->high);
      if (low <= high) state.edges.push_back({low, high, pairs.Of({x->target, y->target})});
      (x->high < y->high ? x : y)++;
    }
    out.states_.push_back(std::move(state));
  }
  return out;
}

std::optional<TextDfa::Repetition> TextDfa::AsRepetition() const {
  const auto same = [](const Edge& a, const Edge& b) { return a.low == b.low && a.high == b.high; };
  const std::vector<Edge>& first = states_[0].edges;
  Repetition out{.characters = {}, .min = kUnbounded, .max = kUnbounded};
  for (const Edge& edge : first) out.characters.Add(edge.low, edge.high);
  uint32_t index = 0;
  for (int count = 0;; ++count) {
    const State& state = states_[index];
    if (state.accepts && out.min == kUnbounded) out.min = count;
    if (!state.accepts && out.min != kUnbounded) return std::nullopt;
    if (state.edges.empty()) {
      out.max = count;
      break;
    }
    const uint32_t next = state.edges[0].target;
    const bool is_chain =
        std::equal(state.edges.begin(), state.edges.end(), first.begin(), first.end(), same) &&
        std::all_of(state.edges.begin(), state.edges.end(),
                    [&](const Edge& edge) { return edge.target == next; });
    if (!is_chain || next < index) return std::nullopt;
    if (next == index) break;
    index = next;
  }
  if (out.min == kUnbounded) return std::nullopt;
  return out;
}

ExprId TextDfa::AddTo(RuleSet& rules,
                      const std::function<ExprId(RuleSet&, const CodePointSet&)>& write) const {
  // Equal sets of characters between two states share one expression.
  std::map<std::vector<std::pair<char32_t, char32_t>>, ExprId> written;
  std::vector<ExprState> states;
  for (const State& state : states_) {
    std::map<uint32_t, std::vector<std::pair<char32_t, char32_t>>> ranges;
    for (const Edge& edge : state.edges) ranges[edge.target].emplace_back(edge.low, edge.high);
    ExprState& out = states.emplace_back();
    out.accepts = state.accepts;
    for (auto& [target, set] : ranges) {
      const auto [found, is_new] = written.try_emplace(std::move(set), kNoExpr);
      if (is_new) {
        CodePointSet characters;
        for (const auto& [low, high] : found->first) characters.Add(low, high);
        found->second = write(rules, characters);
      }
      out.edges.emplace_back(found->second, target);
    }
  }
  return rules.States(std::move(states));
}

}  // namespace outrider::grammar
