#include "common/text/fingerprint.h"

#include <vector>

#include "common/base/fnv_hash.h"
#include "common/text/token_model.h"
#include "common/text/vocabulary.h"

namespace outrider {

TokenizerFingerprint MakeFingerprint(const Vocabulary& vocabulary, const TokenModel& model) {
  FnvHash strings, merges, special;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.Has(id)) continue;
    strings.Add(static_cast<uint64_t>(id));
    strings.Add(vocabulary.Text(id));
    if (vocabulary.IsSpecial(id)) special.Add(static_cast<uint64_t>(id));
  }
  model.AddTo(&merges);
  return {strings.value(), merges.value(), special.value(), vocabulary.size()};
}

std::string DescribeMismatch(const TokenizerFingerprint& target,
                             const TokenizerFingerprint& drafter) {
  std::vector<std::string> differences;
  if (target.vocab_size != drafter.vocab_size) {
    differences.push_back("the target has " + std::to_string(target.vocab_size) +
                          " tokens, the drafter " + std::to_string(drafter.vocab_size));
  } else if (target.vocabulary != drafter.vocabulary) {
    differences.push_back("both have " + std::to_string(target.vocab_size) +
                          " tokens, but the token strings differ");
  }
  if (target.merges != drafter.merges) differences.push_back("the merges differ");
  if (target.special_tokens != drafter.special_tokens) {
    differences.push_back("the sets of special tokens differ");
  }
  std::string out;
  for (const std::string& difference : differences) {
    if (!out.empty()) out += "; ";
    out += difference;
  }
  return out;
}

}  // namespace outrider
