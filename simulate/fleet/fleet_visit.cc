#include "simulate/fleet/fleet_visit.h"

#include <memory>
#include <vector>

#include "verifier/pool/drafter_link.h"

namespace outrider {
namespace {

// Keeps the demand that a visitor is told; it is sent nothing else that matters.
class VisitorLink final : public DrafterLink {
 public:
  const std::optional<DrafterDemand>& demand() const { return demand_; }

  void SendDemand(const DrafterDemand& demand) override { demand_ = demand; }
  void SendVocabulary(const VocabularyEntries& /*vocabulary*/) override {}
  void SendWelcome(const DrafterWelcome& /*welcome*/) override {}
  void SendOpen(SessionOpening /*opening*/) override {}
  void SendVerdicts(std::vector<SessionVerdict> /*decisions*/) override {}
  void SendClose(uint64_t /*session*/) override {}
  void SendDrain() override {}
  void Close(const Status& /*reason*/) override {}

 private:
  std::optional<DrafterDemand> demand_;
};

}  // namespace

std::optional<DrafterDemand> AskDemand(uint64_t id, const FleetDrafter& drafter,
                                       DrafterPool* pool) {
  DrafterHello hello = drafter.hello();
  hello.visit = true;
  const auto link = std::make_shared<VisitorLink>();
  if (!pool->roster().Join(id, hello, link).ok()) return std::nullopt;
  return link->demand();
}

}  // namespace outrider
