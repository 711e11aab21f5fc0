// What a drafter and a verifier compare before they exchange token ids: equal when the ids mean
// the same, whatever the formatting of the files. FNV-1a hashes: they tell mistakes apart, not
// forgeries.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace outrider {

class TokenModel;
class Vocabulary;

struct TokenizerFingerprint {
  uint64_t vocabulary = 0;      // the string of each id
  uint64_t merges = 0;          // pairs of ids in order of rank, or scores of a Unigram model
  uint64_t special_tokens = 0;  // which ids are special
  int vocab_size = 0;
  bool operator==(const TokenizerFingerprint&) const = default;
};

TokenizerFingerprint MakeFingerprint(const Vocabulary& vocabulary, const TokenModel& model);

// "" when equal; else words that say what differs.
std::string DescribeMismatch(const TokenizerFingerprint& target,
                             const TokenizerFingerprint& drafter);

}  // namespace outrider
