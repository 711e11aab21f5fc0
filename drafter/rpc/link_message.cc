#include "drafter/rpc/link_message.h"

#include <utility>
#include <vector>

#include "common/rpc/drafting_wire.h"

namespace outrider {

Result<std::optional<LinkMessage>> ToLinkMessage(const v1::FromVerifier& wire) {
  switch (wire.message_case()) {
    case v1::FromVerifier::kWelcome: {
      OUTRIDER_ASSIGN(DrafterWelcome welcome, FromWire(wire.welcome()));
      return std::optional<LinkMessage>(
          WelcomeEvent{.link = nullptr, .welcome = std::move(welcome)});
    }
    case v1::FromVerifier::kOpen: {
      OUTRIDER_ASSIGN(SessionOpening opening, FromWire(wire.open()));
      return std::optional<LinkMessage>(std::move(opening));
    }
    case v1::FromVerifier::kVerdicts: {
      OUTRIDER_ASSIGN(std::vector<SessionVerdict> decisions, FromWire(wire.verdicts()));
      return std::optional<LinkMessage>(std::move(decisions));
    }
    case v1::FromVerifier::kClose:
      return std::optional<LinkMessage>(CloseEvent{wire.close().session()});
    case v1::FromVerifier::kDrain: return std::optional<LinkMessage>(DrainEvent{});
    case v1::FromVerifier::kVocabulary:  // the stream handles these itself
    case v1::FromVerifier::kDemand:
    case v1::FromVerifier::MESSAGE_NOT_SET: break;
  }
  return std::optional<LinkMessage>();
}

}  // namespace outrider
