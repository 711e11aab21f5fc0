// Converts a verifier's message to the event that the drafting loop takes, and limits its size.
#pragma once

#include <optional>

#include "common/base/status.h"
#include "common/rpc/incoming.h"
#include "drafter/propose/verifier_link.h"
#include "outrider/v1/drafting.pb.h"

namespace outrider {

// The largest message of a verifier is a vocabulary, or a session of the longest context. The most
// entries are in verdicts: four for each, with its plan, stop rule and acceptance.
inline constexpr MessageLimits kVerifierMessage{.bytes = 8 << 20, .entries = 1 << 15};

// nullopt: a message of a later version, to be ignored. A WelcomeEvent has no link yet. Errors:
// those of common/rpc/drafting_wire.h.
Result<std::optional<LinkMessage>> ToLinkMessage(const v1::FromVerifier& wire);

}  // namespace outrider
