// Drafting's messages as the loop's plain structs and back, with every bound checked: protobuf
// types stop here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/text/fingerprint.h"
#include "drafter/propose/verifier_link.h"
#include "outrider/v1/drafting.pb.h"

namespace outrider {

inline constexpr int kSpokenProtocolVersion = 2;

// What a drafter says of itself.
struct DrafterIdentity {
  std::string name;
  std::string model;
  TokenizerFingerprint tokenizer;
  int vocab_size = 0;  // rows of the logits; may be padded
  int max_sessions = 0;
  int max_draft_length = 0;
  int max_draft_tokens = 0;  // draws of one plan
  int max_context = 0;
  bool acceptance_head = false;
};

v1::FromDrafter ToWire(const DrafterIdentity& identity);
v1::FromDrafter ToWire(const std::vector<Draft>& drafts);
v1::FromDrafter ToWire(const DrafterLoad& load);

// nullopt: a message of a later version, to be ignored. kInvalidArgument for limits or ids that
// make no sense, kFailedPrecondition for a Welcome of another protocol version. A WelcomeEvent
// comes without its link.
Result<std::optional<LinkMessage>> FromWire(const v1::FromVerifier& wire);

}  // namespace outrider
