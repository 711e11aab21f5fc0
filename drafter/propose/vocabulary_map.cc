#include "drafter/propose/vocabulary_map.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/spec/race.h"
#include "common/spec/row_sampling.h"

namespace outrider {
namespace {

// Tokens by their bytes.
class TokensByBytes {
 public:
  TokensByBytes(const VocabularyEntries& entries, TokenKind kind) {
    for (TokenId id = 0; id < entries.size(); ++id) {
      if (entries.kind(id) == kind) sorted_.emplace_back(entries.bytes(id), id);
    }
    std::sort(sorted_.begin(), sorted_.end());
  }

  // -1: none.
  TokenId Find(std::string_view bytes) const {
    const auto it = std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(bytes, TokenId{0}));
    return it != sorted_.end() && it->first == bytes ? it->second : -1;
  }

  // Appends the tokens that spell `bytes`, the longest first; bytes that no token begins with are
  // left out.
  void Spell(std::string_view bytes, std::vector<TokenId>* out) const {
    while (!bytes.empty()) {
      const auto [token, length] = Longest(bytes);
      if (token >= 0) out->push_back(token);
      bytes.remove_prefix(std::max<size_t>(length, 1));
    }
  }

 private:
  // The longest token that `bytes` begin with, and its length; -1: none.
  std::pair<TokenId, size_t> Longest(std::string_view bytes) const {
    std::pair<TokenId, size_t> longest(-1, 0);
    auto begin = sorted_.begin(), end = sorted_.end();
    for (size_t length = 1; length <= bytes.size() && begin != end; ++length) {
      // Those that share `length` bytes; one that has no more comes first.
      const auto byte_at = [length](const auto& token) {
        return token.first.size() < length
                   ? -1
                   : static_cast<int>(static_cast<uint8_t>(token.first[length - 1]));
      };
      const int byte = static_cast<uint8_t>(bytes[length - 1]);
      begin = std::partition_point(begin, end, [&](const auto& t) { return byte_at(t) < byte; });
      end = std::partition_point(begin, end, [&](const auto& t) { return byte_at(t) <= byte; });
      if (begin != end && begin->first.size() == length) longest = {begin->second, length};
    }
    return longest;
  }

  std::vector<std::pair<std::string_view, TokenId>> sorted_;
};

// The only special token among the ends of texts that the other side lacks; -1: there is none, or
// more than one.
template <class IsLacking>
TokenId OnlyLackingEnd(const VocabularyEntries& entries, IsLacking is_lacking) {
  TokenId only = -1;
  for (const TokenId id : entries.end_tokens()) {
    if (entries.kind(id) != TokenKind::kSpecial || !is_lacking(id)) continue;
    if (only >= 0) return -1;
    only = id;
  }
  return only;
}

}  // namespace

std::shared_ptr<const DrafterVocabulary> VocabularyOf(const Tokenizer& tokenizer,
                                                      const ModelConfig& config) {
  Result<VocabularyEntries> entries =
      VocabularyEntries::FromTokenizer(tokenizer, config.vocab_size, config.eos_token_ids);
  if (entries.ok()) {
    return std::make_shared<const DrafterVocabulary>(DrafterVocabulary{
        .entries = std::move(entries).value(), .prompt_prefix = tokenizer.prompt_prefix()});
  }
  Log(LogLevel::kWarning, "verifiers of another vocabulary cannot be drafted for",
      {{"reason", entries.status().message()}});
  return nullptr;
}

Result<VocabularyMap> VocabularyMap::Create(const VocabularyEntries& verifier,
                                            const DrafterVocabulary& own) {
  OUTRIDER_TRY(verifier.CheckDistinct());
  const TokensByBytes texts(own.entries, TokenKind::kText);
  const TokensByBytes specials(own.entries, TokenKind::kSpecial);
  VocabularyMap map;
  map.prompt_prefix_ = own.prompt_prefix;
  map.match_.tokens = own.entries.tokens();
  map.to_verifier_.resize(static_cast<size_t>(own.entries.size()), -1);
  std::vector<TokenId> same(static_cast<size_t>(verifier.size()), -1);
  for (TokenId id = 0; id < verifier.size(); ++id) {
    TokenId& ours = same[static_cast<size_t>(id)];
    if (verifier.kind(id) == TokenKind::kText) ours = texts.Find(verifier.bytes(id));
    if (verifier.kind(id) == TokenKind::kSpecial) ours = specials.Find(verifier.bytes(id));
    if (ours >= 0) map.to_verifier_[static_cast<size_t>(ours)] = id;
  }
  map.PairEnds(verifier, own.entries, &same);
  map.first_ = {0};
  for (TokenId id = 0; id < verifier.size(); ++id) {
    if (const TokenId ours = same[static_cast<size_t>(id)]; ours >= 0) {
      map.own_.push_back(ours);
      ++map.match_.shared;
    } else if (verifier.kind(id) != TokenKind::kSpecial) {
      texts.Spell(verifier.bytes(id), &map.own_);
    }
    map.first_.push_back(static_cast<uint32_t>(map.own_.size()));
  }
  return map;
}

void VocabularyMap::PairEnds(const VocabularyEntries& verifier, const VocabularyEntries& own,
                             std::vector<TokenId>* same) {
  const TokenId theirs =
      OnlyLackingEnd(verifier, [&](TokenId id) { return (*same)[static_cast<size_t>(id)] < 0; });
  const TokenId ours = OnlyLackingEnd(own, [&](TokenId id) { return ToVerifier(id) < 0; });
  if (theirs < 0 || ours < 0) return;
  (*same)[static_cast<size_t>(theirs)] = ours;
  to_verifier_[static_cast<size_t>(ours)] = theirs;
}

std::span<const TokenId> VocabularyMap::ToOwn(TokenId verifiers) const {
  if (verifiers < 0 || verifiers >= verifier_size()) return {};
  const auto id = static_cast<size_t>(verifiers);
  return std::span(own_).subspan(first_[id], first_[id + 1] - first_[id]);
}

size_t VocabularyMap::OwnSize(std::span<const TokenId> verifiers) const {
  size_t size = 0;
  for (const TokenId token : verifiers) size += ToOwn(token).size();
  return size;
}

void VocabularyMap::AppendOwn(std::span<const TokenId> verifiers, std::vector<TokenId>* out) const {
  for (const TokenId token : verifiers) {
    const std::span<const TokenId> own = ToOwn(token);
    out->insert(out->end(), own.begin(), own.end());
  }
}

std::vector<uint32_t> VocabularyMap::SharedMask(int vocab_size) const {
  std::vector<uint32_t> mask(static_cast<size_t>(MaskWords(vocab_size)));
  const size_t known = std::min(to_verifier_.size(), static_cast<size_t>(vocab_size));
  for (size_t own = 0; own < known; ++own) {
    if (to_verifier_[own] >= 0) mask[own / 32] |= 1u << (own % 32);
  }
  return mask;
}

Result<SessionOpening> VocabularyMap::ToOwn(const SessionOpening& open) const {
  SessionOpening own = open;
  const std::span<const TokenId> tokens = open.tokens;
  const auto prompt = static_cast<size_t>(open.prompt_tokens);
  own.tokens.clear();
  AppendOwn(tokens.first(prompt), &own.tokens);
  if (!std::equal(prompt_prefix_.begin(), prompt_prefix_.end(), own.tokens.begin(),
                  own.tokens.begin() + static_cast<std::ptrdiff_t>(
                                           std::min(prompt_prefix_.size(), own.tokens.size())))) {
    own.tokens.insert(own.tokens.begin(), prompt_prefix_.begin(), prompt_prefix_.end());
  }
  own.prompt_tokens = static_cast<int>(own.tokens.size());
  AppendOwn(tokens.subspan(prompt), &own.tokens);
  if (own.tokens.empty()) {
    return FailedPrecondition("none of the text's " + std::to_string(tokens.size()) +
                              " tokens has a counterpart in the drafter's vocabulary");
  }

  // The shared token of ours; -1: there is none.
  const auto shared = [this](TokenId verifiers) {
    const std::span<const TokenId> same = ToOwn(verifiers);
    return same.size() == 1 && ToVerifier(same[0]) == verifiers ? same[0] : -1;
  };
  SamplingParams& sampling = own.sampling;
  for (auto& [token, bias] : sampling.logit_bias) token = shared(token);
  std::erase_if(sampling.logit_bias, [](const auto& entry) { return entry.first < 0; });
  std::vector<TokenId> allowed;
  for (const TokenId token : open.sampling.allowed_tokens) {
    if (const TokenId same = shared(token); same >= 0) allowed.push_back(same);
  }
  if (allowed.empty() && !open.sampling.allowed_tokens.empty()) {
    return FailedPrecondition("none of the allowed tokens is in the drafter's vocabulary");
  }
  // Words of several tokens do not count for drafts (PickBatch::BeginSequence).
  std::vector<std::vector<TokenId>> bad_words;
  for (const std::vector<TokenId>& word : open.sampling.bad_words) {
    if (word.size() != 1 || shared(word[0]) < 0) continue;
    bad_words.push_back({shared(word[0])});
  }
  sampling.allowed_tokens = std::move(allowed);
  sampling.bad_words = std::move(bad_words);
  return own;
}

std::vector<TokenId> VocabularyMap::RaceWinners(std::span<const RowEntry> entries, int count,
                                                uint64_t seed, uint32_t position) const {
  std::vector<std::pair<double, TokenId>> arrivals;
  for (const RowEntry& entry : entries) {
    const double time =
        ArrivalTime(ToVerifier(entry.id), static_cast<double>(entry.value), seed, position);
    arrivals.emplace_back(time, entry.id);
  }
  const size_t kept = std::min(arrivals.size(), static_cast<size_t>(count));
  std::partial_sort(arrivals.begin(), arrivals.begin() + static_cast<std::ptrdiff_t>(kept),
                    arrivals.end());
  std::vector<TokenId> winners;
  for (size_t i = 0; i < kept; ++i) winners.push_back(arrivals[i].second);
  return winners;
}

void VocabularyMap::ToVerifier(DraftChunk* chunk) const {
  const auto translate = [this](TokenId* token) {
    *token = ToVerifier(*token);
    OUTRIDER_CHECK(*token >= 0);
  };
  for (TokenId& token : chunk->tokens) translate(&token);
  for (DraftDistribution& distribution : chunk->distributions) {
    for (TokenId& id : distribution.ids) translate(&id);
  }
}

}  // namespace outrider
