#include "verifier/propose/local_proposer.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace outrider {

LocalProposer::LocalProposer(const LocalProposerOptions& options, SuffixStore* store,
                             std::string client)
    : options_(options), store_(store), client_(std::move(client)) {
  if (options.lookup.max_tokens > 0) lookup_.emplace(options.lookup);
  if (options.suffix_max_tokens > 0) suffix_.emplace(options.suffix_max_tokens);
}

void LocalProposer::Observe(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    if (lookup_) lookup_->Append(token);
    if (suffix_) suffix_->Append(token);
  }
  observed_ += static_cast<int64_t>(tokens.size());
  constexpr size_t kKept = SuffixStore::kContext;
  const std::span<const TokenId> end = tokens.last(std::min(tokens.size(), kKept));
  tail_.insert(tail_.end(), end.begin(), end.end());
  if (tail_.size() > 4 * kKept) {
    tail_.erase(tail_.begin(), tail_.end() - static_cast<std::ptrdiff_t>(kKept));
  }
}

const LocalProposal& LocalProposer::Propose(LocalSource source, int max_length) {
  if (source == LocalSource::kSuffix) {
    ProposeSuffix(max_length);
    return proposal_;
  }
  proposal_.tokens.clear();
  proposal_.match_length = 0;
  if (lookup_) {
    lookup_->Continue(max_length, &proposal_.tokens);
    proposal_.match_length = lookup_->match_length();
  }
  proposal_.score = static_cast<double>(proposal_.tokens.size());
  return proposal_;
}

// Takes the draft with the higher score, then with the longer match, from the session's own text or
// the store; its own if equal.
void LocalProposer::ProposeSuffix(int max_length) {
  proposal_.tokens.clear();
  proposal_.match_length = 0;
  proposal_.score = 0;
  if (!suffix_) return;
  Continue(*suffix_, suffix_->OwnMatch(), max_length, &proposal_);
  if (store_ == nullptr || !store_->on()) return;
  const SuffixStore::Found found =
      store_->Find(client_, tail_, observed_, options_.suffix_min_match, &cursor_);
  if (found.automaton == nullptr) return;
  Continue(*found.automaton, found.match, max_length, &other_);
  if (std::tie(other_.score, other_.match_length) >
      std::tie(proposal_.score, proposal_.match_length)) {
    std::swap(proposal_, other_);
  }
}

void LocalProposer::Continue(const SuffixAutomaton& text, SuffixMatch match, int max_length,
                             LocalProposal* proposal) const {
  proposal->tokens.clear();
  proposal->match_length = match.length;
  const double scaled = options_.suffix_length_per_match * match.length;
  proposal->score =
      text.Continue(match,
                    {.max_length = scaled < max_length ? static_cast<int>(scaled) : max_length,
                     .min_match = options_.suffix_min_match,
                     .min_probability = options_.suffix_min_probability},
                    &proposal->tokens);
}

void LocalProposer::Remember(std::span<const TokenId> text) {
  if (store_ != nullptr) store_->Add(client_, text);
}

size_t LocalProposer::bytes() const {
  return (lookup_ ? lookup_->bytes() : 0) + (suffix_ ? suffix_->bytes() : 0);
}

}  // namespace outrider
