#include "simulate/fleet/fleet_connection.h"

#include <functional>
#include <utility>
#include <vector>

namespace outrider {
namespace {

// On the wire, about: a token of a greedy draft takes two bytes, a message's frames the rest.
size_t BytesOf(const std::vector<DraftPart>& parts) {
  size_t bytes = 40;
  for (const DraftPart& part : parts) bytes += 20 + 2 * part.chunk.tokens.size();
  return bytes;
}

}  // namespace

class FleetConnection::ToDrafter final : public DrafterLink {
 public:
  explicit ToDrafter(std::shared_ptr<FleetConnection> connection)
      : connection_(std::move(connection)) {}

  void SendVocabulary(const VocabularyEntries& /*vocabulary*/) override {}
  void SendWelcome(const DrafterWelcome& welcome) override;
  void SendDemand(const DrafterDemand& demand) override { connection_->SendDemand(demand); }
  void SendOpen(SessionOpening opening) override { connection_->SendToDrafter(std::move(opening)); }
  void SendVerdicts(std::vector<SessionVerdict> decisions) override {
    connection_->SendToDrafter(std::move(decisions));
  }
  void SendClose(uint64_t session) override { connection_->SendToDrafter(CloseEvent{session}); }
  void SendDrain() override { connection_->SendToDrafter(DrainEvent{}); }
  void Close(const Status& reason) override {
    connection_->was_expelled_ = connection_->was_expelled_ || !reason.ok();
    connection_->Break(StreamEnd::kClosed);
  }

 private:
  const std::shared_ptr<FleetConnection> connection_;
};

class FleetConnection::ToVerifier final : public VerifierLink {
 public:
  explicit ToVerifier(std::shared_ptr<FleetConnection> connection)
      : connection_(std::move(connection)) {}

  void SendDrafts(std::vector<DraftPart> drafts) override {
    const size_t bytes = BytesOf(drafts);
    connection_->SendToVerifier(
        [id = connection_->id_, drafts = std::move(drafts), bytes](DrafterPool& pool, Time at) {
          pool.OnDrafts(id, drafts, bytes, at);
        });
  }
  void SendLoad(const DrafterLoad& load) override {
    connection_->SendToVerifier(
        [id = connection_->id_, load](DrafterPool& pool, Time) { pool.roster().OnLoad(id, load); });
  }
  void Close() override { connection_->CloseAfterSending(); }

 private:
  const std::shared_ptr<FleetConnection> connection_;
};

void FleetConnection::ToDrafter::SendWelcome(const DrafterWelcome& welcome) {
  connection_->SendToDrafter(
      WelcomeEvent{.link = std::make_shared<ToVerifier>(connection_), .welcome = welcome});
}

FleetConnection::FleetConnection(uint64_t id, FleetVerifier* verifier, FleetDrafter* drafter,
                                 EventQueue* queue, FleetNetwork* network)
    : id_(id), verifier_(verifier), drafter_(drafter), queue_(queue), network_(network) {}

Time FleetConnection::Arrival(int from, int to, Time sent, Time* last) {
  return network_ == nullptr ? sent : network_->Arrival(from, to, sent, last);
}

void FleetConnection::Dial(std::function<void()> ended) {
  ended_ = std::move(ended);
  // TCP's handshake, then the hello.
  const int here = drafter_->zone();
  const int there = verifier_->zone();
  const Time syn = Arrival(here, there, queue_->now(), &last_to_verifier_);
  const Time ack = Arrival(there, here, syn, &last_to_drafter_);
  const Time hello = Arrival(here, there, ack, &last_to_verifier_);
  queue_->At(hello, [self = shared_from_this()] {
    self->verifier_->Post([self] {
      if (!self->is_open_) return;
      const Status joined = self->verifier_->pool().roster().Join(
          self->id_, self->drafter_->hello(), std::make_shared<ToDrafter>(self));
      if (!joined.ok()) self->Break(StreamEnd::kClosed);
    });
  });
}

void FleetConnection::Break(StreamEnd why) {
  if (!is_open_) return;
  is_open_ = false;
  verifier_->Post(
      [id = id_, verifier = verifier_, why] { verifier->pool().roster().OnStreamEnd(id, why); });
  drafter_->Post([id = id_, drafter = drafter_] {
    drafter->events().PushUrgent({.connection = id, .message = DisconnectedEvent{}});
  });
  std::exchange(ended_, nullptr)();
}

void FleetConnection::Leave() {
  drafter_->Post([self = shared_from_this()] {
    self->drafter_->events().PushUrgent(
        {.connection = self->id_, .message = WantedEvent{.wanted = false}});
  });
}

void FleetConnection::CloseAfterSending() {
  const Time at = Arrival(drafter_->zone(), verifier_->zone(), queue_->now(), &last_to_verifier_);
  queue_->At(at, [self = shared_from_this()] { self->Break(StreamEnd::kClosed); });
}

void FleetConnection::SendToDrafter(LinkMessage message) {
  const Time at =
      Arrival(verifier_->zone(), drafter_->zone(), verifier_->clock().Now(), &last_to_drafter_);
  queue_->At(at, [self = shared_from_this(),
                  message = std::make_shared<LinkMessage>(std::move(message))] {
    if (!self->is_open_) return;
    self->drafter_->Post([self, message] {
      const bool has_room =
          self->drafter_->events().Push({.connection = self->id_, .message = std::move(*message)});
      // As a service's stream ends: its sessions are out of date.
      if (!has_room) self->Break(StreamEnd::kOverload);
    });
  });
}

void FleetConnection::SendDemand(const DrafterDemand& demand) {
  if (on_demand_ == nullptr) return;
  const Time at =
      Arrival(verifier_->zone(), drafter_->zone(), verifier_->clock().Now(), &last_to_drafter_);
  queue_->At(at, [self = shared_from_this(), demand] {
    if (self->is_open_) self->on_demand_(demand);
  });
}

void FleetConnection::SendToVerifier(std::function<void(DrafterPool&, Time)> receive) {
  const Time at =
      Arrival(drafter_->zone(), verifier_->zone(), drafter_->clock().Now(), &last_to_verifier_);
  queue_->At(at, [self = shared_from_this(), receive = std::move(receive), at]() mutable {
    if (!self->is_open_) return;
    self->verifier_->Post(
        [self, receive = std::move(receive), at] { receive(self->verifier_->pool(), at); });
  });
}

}  // namespace outrider
