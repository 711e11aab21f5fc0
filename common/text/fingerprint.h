// Fingerprints that a drafter and a verifier compare before they exchange token ids: equal if the
// ids mean the same, whatever the formatting of the files. FNV-1a hashes, which detect mistakes,
// not forgeries.
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
  uint64_t merges = 0;          // pairs of ids by rank, or scores of a Unigram model
  uint64_t special_tokens = 0;  // which ids are special
  int vocab_size = 0;
  bool operator==(const TokenizerFingerprint&) const = default;
};

TokenizerFingerprint MakeFingerprint(const Vocabulary& vocabulary, const TokenModel& model);

// "" if equal; else a message that says what differs.
std::string DescribeMismatch(const TokenizerFingerprint& target,
                             const TokenizerFingerprint& drafter);

}  // namespace outrider
