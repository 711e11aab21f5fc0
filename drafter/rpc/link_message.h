// Converts a verifier's message to the event that the drafting loop takes.
#pragma once

#include <optional>

#include "common/base/status.h"
#include "drafter/propose/verifier_link.h"
#include "outrider/v1/drafting.pb.h"

namespace outrider {

// nullopt: a message of a later version, to be ignored. A WelcomeEvent has no link yet. Errors:
// those of common/rpc/drafting_wire.h.
Result<std::optional<LinkMessage>> ToLinkMessage(const v1::FromVerifier& wire);

}  // namespace outrider
