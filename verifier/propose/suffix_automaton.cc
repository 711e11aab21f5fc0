#include "verifier/propose/suffix_automaton.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {
namespace {

constexpr int kRoot = 0;

uint64_t EdgeHash(int state, TokenId token) {
  return HashStep(HashSalt(),
                  (uint64_t{static_cast<uint32_t>(state)} << 32) | static_cast<uint32_t>(token));
}

}  // namespace

SuffixAutomaton::SuffixAutomaton(int max_tokens) : max_tokens_(max_tokens), states_(1) {
  OUTRIDER_CHECK(max_tokens >= 2 && max_tokens <= 1 << 29);
}

void SuffixAutomaton::Append(TokenId token) {
  OUTRIDER_CHECK(token >= kBreak);
  ++version_;
  if (size() == max_tokens_) {
    const std::vector<TokenId> kept(text_.end() - max_tokens_ / 2, text_.end());
    text_.clear();
    states_.assign(1, State());
    edges_.clear();
    table_.Clear();
    last_ = kRoot;
    transitions_ = 0;
    for (const TokenId old : kept) Extend(old);
  }
  Extend(token);
}

void SuffixAutomaton::Extend(TokenId token) {
  text_.push_back(token);
  const int current = states();
  states_.push_back({.length = at(last_).length + 1, .link = kRoot});
  int state = last_;
  for (; state >= 0 && Target(state, token) < 0; state = at(state).link) {
    AddTransition(state, token, current);
  }
  if (state >= 0) {
    const int target = Target(state, token), length = at(state).length + 1;
    if (at(target).length == length) {
      at(current).link = target;
    } else {
      // `target` also holds longer strings that did not end here, so those that did get a state of
      // their own.
      const int clone = Clone(target, length);
      for (; state >= 0 && Target(state, token) == target; state = at(state).link) {
        SetTarget(state, token, clone);
      }
      at(target).link = at(current).link = clone;
    }
  }
  last_ = current;
  state = current;
  for (int i = 0; i < kCountedSuffixes && state > kRoot; ++i, state = at(state).link) {
    ++steps_;
    ++at(state).count;
    at(state).end = size();
  }
}

// So far, the strings of `state` up to `length` have the same end positions as the others.
int SuffixAutomaton::Clone(int state, int length) {
  const int clone = states();
  State copy = at(state);
  copy.length = length;
  copy.more = -1;
  states_.push_back(copy);
  ++transitions_;
  for (int edge = at(state).more; edge >= 0; edge = edges_[static_cast<size_t>(edge)].next) {
    const Edge from = edges_[static_cast<size_t>(edge)];
    AddTransition(clone, from.token, from.target);
  }
  return clone;
}

int SuffixAutomaton::Target(int state, TokenId token) const {
  ++steps_;
  const State& s = at(state);
  if (s.target >= 0 && s.token == token) return s.target;
  if (s.more < 0) return -1;
  const int edge = FindEdge(state, token);
  return edge < 0 ? -1 : edges_[static_cast<size_t>(edge)].target;
}

int SuffixAutomaton::FindEdge(int state, TokenId token) const {
  return table_.Find(EdgeHash(state, token), [&](int32_t i) {
    const Edge& edge = edges_[static_cast<size_t>(i)];
    return edge.state == state && edge.token == token;
  });
}

void SuffixAutomaton::AddTransition(int state, TokenId token, int target) {
  ++transitions_;
  State& s = at(state);
  if (s.target < 0) {
    s.token = token;
    s.target = target;
    return;
  }
  const auto edge = static_cast<int32_t>(edges_.size());
  edges_.push_back({state, token, target, s.more});
  s.more = edge;
  table_.Put(EdgeHash(state, token), edge, [](int32_t) { return false; });
}

void SuffixAutomaton::SetTarget(int state, TokenId token, int target) {
  State& s = at(state);
  if (s.token == token) {
    s.target = target;
  } else {
    edges_[static_cast<size_t>(FindEdge(state, token))].target = target;
  }
}

SuffixMatch SuffixAutomaton::OwnMatch() const {
  const int link = at(last_).link;
  return link <= kRoot ? SuffixMatch() : SuffixMatch{link, at(link).length};
}

SuffixMatch SuffixAutomaton::Step(SuffixMatch match, TokenId token) const {
  int target = Target(match.state, token);
  while (target < 0 && match.state != kRoot) {
    match.state = at(match.state).link;
    match.length = at(match.state).length;
    target = Target(match.state, token);
  }
  return target < 0 ? SuffixMatch() : SuffixMatch{target, match.length + 1};
}

bool SuffixAutomaton::Ahead(int state, int other) const {
  return at(state).count > at(other).count ||
         (at(state).count == at(other).count && at(state).end > at(other).end);
}

template <class Visit>
void SuffixAutomaton::ForEachBranch(int state, const Visit& visit) const {
  if (at(state).target < 0) return;
  visit(at(state).token, at(state).target);
  int edge = at(state).more;
  for (int i = 0; i < kScannedBranches && edge >= 0; ++i) {
    ++steps_;
    const Edge& e = edges_[static_cast<size_t>(edge)];
    visit(e.token, e.target);
    edge = e.next;
  }
}

double SuffixAutomaton::Continue(SuffixMatch match, const ContinuationLimits& limits,
                                 std::vector<TokenId>* out) const {
  double score = 0, probability = 1;
  for (int i = 0; i < limits.max_length; ++i) {
    // At the end of the text: a shorter suffix also occurred elsewhere and continued there.
    while (match.state != kRoot && at(match.state).target < 0) {
      match.state = at(match.state).link;
      match.length = at(match.state).length;
    }
    if (match.state == kRoot || match.length < limits.min_match) break;
    Branch best;
    int64_t total = 0;
    ForEachBranch(match.state, [&](TokenId token, int target) {
      total += at(target).count;
      if (best.target < 0 || Ahead(target, best.target)) best = {token, target};
    });
    probability *= static_cast<double>(at(best.target).count) / static_cast<double>(total);
    if (best.token == kBreak || probability < limits.min_probability) break;
    out->push_back(best.token);
    score += probability;
    match = {best.target, match.length + 1};
  }
  return score;
}

size_t SuffixAutomaton::bytes() const {
  return text_.capacity() * sizeof(TokenId) + states_.capacity() * sizeof(State) +
         edges_.capacity() * sizeof(Edge) + table_.bytes();
}

}  // namespace outrider
