#include "verifier/pool/drafter_fit.h"

#include <algorithm>

namespace outrider {

Status CheckHello(const TargetIdentity& target, const DrafterHello& hello) {
  if (!AgreeOnProtocol({}, hello.protocol).has_value()) {
    return FailedPrecondition("protocol version: the verifier speaks " + ToString(ProtocolRange{}) +
                              ", the drafter " + ToString(hello.protocol) +
                              "; upgrade the older one");
  }
  const bool translates = hello.translates && target.vocabulary != nullptr;
  if (const std::string mismatch = TokenizerMismatch(target, hello);
      !translates && !mismatch.empty()) {
    return FailedPrecondition("tokenizer of " + hello.model + " differs from that of " +
                              target.model + ": " + mismatch);
  }
  if (hello.vocab_size < 1 || hello.max_sessions < 1 || hello.max_draft_length < 1 ||
      hello.max_draft_tokens < 1 || hello.max_context < 2) {
    return FailedPrecondition(
        "hello: vocab_size, max_sessions, max_draft_length, max_draft_tokens and max_context must "
        "be positive");
  }
  return Status();
}

std::string TokenizerMismatch(const TargetIdentity& target, const DrafterHello& hello) {
  return DescribeMismatch(target.tokenizer, hello.tokenizer);
}

Status CheckMatch(const TargetIdentity& target, const DrafterHello& hello,
                  const VocabularyMatch& match) {
  const int most = std::min(match.tokens, target.tokens());
  if (match.tokens < 1 || match.tokens > hello.vocab_size || match.shared < 0 ||
      match.shared > most) {
    return InvalidArgument("vocabulary match: " + std::to_string(match.shared) + " shared of " +
                           std::to_string(match.tokens) + " tokens, but the drafter's model has " +
                           std::to_string(hello.vocab_size) + " and the target " +
                           std::to_string(target.tokens()));
  }
  if (match.shared >= kLeastSharedTokens * match.tokens) return Status();
  return FailedPrecondition("vocabulary of " + hello.model + ": only " +
                            std::to_string(100LL * match.shared / match.tokens) + " % of its " +
                            std::to_string(match.tokens) + " tokens are among the " +
                            std::to_string(target.tokens()) + " of " + target.model +
                            "; at least 70 % must be: choose a drafter whose vocabulary is "
                            "closer to the target's");
}

}  // namespace outrider
