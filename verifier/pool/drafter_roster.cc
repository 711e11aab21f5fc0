#include "verifier/pool/drafter_roster.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/log.h"

namespace outrider {
namespace {

// How long a drafter is of no use before a newcomer may displace it: some six trials of a busy
// verifier. So slow drafters that displace each other do it once a minute.
constexpr Duration kKeepsPlace = std::chrono::minutes(1);

// For the log.
const char* DescribeEnd(StreamEnd why) {
  switch (why) {
    case StreamEnd::kClosed: return "it closed its stream, as on SIGTERM";
    case StreamEnd::kGone: return "the connection broke: the process or the network is gone";
    case StreamEnd::kProtocolError: return "what it sent broke the protocol; its stream was closed";
    case StreamEnd::kOverload:
      return "too many messages waited, or for too long; its stream was closed";
  }
  return "";
}

}  // namespace

DrafterRoster::DrafterRoster(TargetIdentity target,
                             const DraftDistributionLimits& distribution_limits,
                             VerifierMetrics* metrics, const Clock* clock,
                             const DrafterRosterOptions& options, const Assignments* assignments,
                             std::function<void(uint64_t)> on_drop)
    : target_(std::move(target)),
      distribution_limits_(distribution_limits),
      options_(options),
      metrics_(metrics),
      clock_(clock),
      assignments_(assignments),
      on_drop_(std::move(on_drop)) {}

Status DrafterRoster::Refuse(const DrafterHello& hello, Status why) const {
  if (metrics_ != nullptr) metrics_->drafters_refused_total.Increment();
  Log(LogLevel::kWarning, "drafter refused", {{"drafter", hello.name}, {"reason", why.message()}});
  return why;
}

Status DrafterRoster::Join(uint64_t id, const DrafterHello& hello,
                           std::shared_ptr<DrafterLink> link) {
  if (draining_) return Unavailable("the verifier is draining");
  if (Status status = CheckHello(target_, hello); !status.ok())
    return Refuse(hello, std::move(status));
  if (hello.visit) {
    link->SendWelcome(WelcomeFor(hello, target_.vocab_size));
    if (AgreeOnProtocol({}, hello.protocol) >= kDemandProtocol) link->SendDemand(Demand());
    link->Close(Status());
    return Status();
  }
  if (!MakeRoom()) {
    return Refuse(hello,
                  ResourceExhausted("the verifier has " + std::to_string(options_.max_drafters) +
                                    " drafters, as many as --max-drafters allows; attach "
                                    "to another verifier"));
  }
  if (TokenizerMismatch(target_, hello).empty()) {
    Welcome(id, hello, std::move(link), std::nullopt);
    return Status();
  }
  link->SendVocabulary(*target_.vocabulary);
  translators_[id] = {.hello = hello, .link = std::move(link), .asked = clock_->Now()};
  return Status();
}

bool DrafterRoster::MakeRoom() {
  if (std::ssize(drafters_) + std::ssize(translators_) < options_.max_drafters) return true;
  std::optional<uint64_t> longest;
  const Time now = clock_->Now();
  Time since = now - kKeepsPlace;
  const auto consider = [&](uint64_t id, Time useless, const DrafterLink& link) {
    if (useless > since || !link.CanGoElsewhere()) return;
    longest = id;
    since = useless;
  };
  for (const auto& [id, drafter] : drafters_) {
    const Punctuality& punctuality = drafter.punctuality;
    if (punctuality.silent()) consider(id, punctuality.silent_since(), *drafter.link);
    // One that was asked for a short time has not shown that it is of no use.
    const bool is_full =
        drafter.full.has_value() && drafter.full->last - drafter.full->since >= kKeepsPlace;
    if (is_full) consider(id, drafter.full->since, *drafter.link);
  }
  for (const auto& [id, peer] : translators_) consider(id, peer.asked, *peer.link);
  if (longest.has_value()) Displace(*longest, since);
  return longest.has_value();
}

void DrafterRoster::Displace(uint64_t id, Time since) {
  const auto translator = translators_.find(id);
  const bool welcomed = translator == translators_.end();
  const DrafterHello& hello = welcomed ? drafters_.at(id).hello : translator->second.hello;
  Log(LogLevel::kWarning, "drafter of no use gives its place to another one",
      {{"drafter", hello.name},
       {"useless_seconds", Seconds(clock_->Now() - since)},
       {"suspended", welcomed && drafters_.at(id).punctuality.silent()},
       {"welcomed", welcomed}});
  (welcomed ? drafters_.at(id).link : translator->second.link)
      ->Close(ResourceExhausted(
          "the verifier has as many drafters as --max-drafters allows, and this one was of no use "
          "for a minute (suspended, without room, or with no answer to the vocabulary): another "
          "one gets its place"));
  Drop(id);
  if (metrics_ != nullptr) metrics_->drafters_left_displaced.Increment();
}

Status DrafterRoster::OnMatch(uint64_t id, const VocabularyMatch& match) {
  const auto it = translators_.find(id);
  if (it == translators_.end()) {
    return FailedPrecondition("a vocabulary match, but no vocabulary was sent");
  }
  Translator translator = std::move(it->second);
  translators_.erase(it);
  if (draining_) return Unavailable("the verifier is draining");
  if (Status status = CheckMatch(target_, translator.hello, match); !status.ok()) {
    return Refuse(translator.hello, std::move(status));
  }
  Welcome(id, std::move(translator.hello), std::move(translator.link), match);
  return Status();
}

void DrafterRoster::Welcome(uint64_t id, DrafterHello hello, std::shared_ptr<DrafterLink> link,
                            std::optional<VocabularyMatch> match) {
  ConnectedDrafter& drafter = drafters_[id];
  drafter.punctuality = Punctuality(options_.min_draft_wait);
  drafter.hello = std::move(hello);
  drafter.match = match;
  drafter.link = std::move(link);
  drafter.joined = clock_->Now();
  drafter.last_message = drafter.joined;
  // Ids are the target's, so a translating drafter's own vocabulary size is not a bound.
  const int rows = match.has_value() ? target_.vocab_size : drafter.hello.vocab_size;
  const DrafterWelcome welcome = WelcomeFor(drafter.hello, rows);
  drafter.protocol = welcome.protocol;
  drafter.link->SendWelcome(welcome);
  // The others are told in turn: if all attach at once, each would be told of every other one.
  TellDemand(drafter, Demand());
  CountDrafters();
  std::vector<LogField> fields = {{"drafter", drafter.hello.name},
                                  {"model", drafter.hello.model},
                                  {"protocol", drafter.protocol},
                                  {"translates", match.has_value()}};
  if (match.has_value()) {
    fields.emplace_back("shared_tokens", match->shared);
    fields.emplace_back("tokens", match->tokens);
  }
  Log(LogLevel::kInfo, "drafter joined", fields);
}

DrafterWelcome DrafterRoster::WelcomeFor(const DrafterHello& hello, int rows) const {
  return {.protocol = *AgreeOnProtocol({}, hello.protocol),
          .model = target_.model,
          .zone = options_.zone,
          .vocab_limit = std::min(vocab_limit(), rows),
          .distribution_limits = distribution_limits_};
}

DrafterDemand DrafterRoster::Demand() const {
  return DemandOf(drafters_, *assignments_, load_, options_.max_drafters, clock_->Now());
}

void DrafterRoster::TellDemand(const RequestLoad& load) {
  load_ = load;
  if (draining_) return;  // they have been told so
  const DrafterDemand demand = Demand();
  if (metrics_ != nullptr) {
    metrics_->drafters_wanted.Set(demand.wanted);
    metrics_->drafters_helping.Set(demand.attached);
  }
  for (auto& [id, drafter] : drafters_) TellDemand(drafter, demand);
}

void DrafterRoster::TellDemand(ConnectedDrafter& drafter, const DrafterDemand& demand) {
  if (drafter.protocol < kDemandProtocol || drafter.told == demand) return;
  drafter.link->SendDemand(demand);
  drafter.told = demand;
}

void DrafterRoster::CountDrafters() {
  if (metrics_ == nullptr) return;
  int silent = 0, translating = 0;
  double least = 1;
  for (const auto& [id, drafter] : drafters_) {
    if (drafter.punctuality.silent()) ++silent;
    if (!drafter.match.has_value()) continue;
    ++translating;
    least = std::min(least, static_cast<double>(drafter.match->shared) / drafter.match->tokens);
  }
  metrics_->drafters_connected.Set(static_cast<double>(drafters_.size()));
  metrics_->drafters_silent.Set(silent);
  metrics_->drafters_translating.Set(translating);
  metrics_->drafter_shared_vocabulary_ratio.Set(least);
}

void DrafterRoster::OnLoad(uint64_t id, const DrafterLoad& load) {
  if (const auto it = drafters_.find(id); it != drafters_.end()) {
    it->second.load = load;
    const int sessions = assignments_->CountOf(id);
    it->second.others = std::max(load.sessions - sessions, 0);
    if (HasRoom(it->second, sessions, /*tokens=*/0)) it->second.full.reset();
    it->second.last_message = clock_->Now();
  }
}

void DrafterRoster::RecordFull(int tokens) {
  const Time now = clock_->Now();
  for (auto& [id, drafter] : drafters_) {
    const int sessions = assignments_->CountOf(id);
    if (sessions > 0 || HasRoom(drafter, sessions, tokens)) {
      drafter.full.reset();
    } else {
      drafter.full = {.since = drafter.full.has_value() ? drafter.full->since : now, .last = now};
    }
  }
}

void DrafterRoster::Leave(uint64_t id) {
  translators_.erase(id);
  const auto it = drafters_.find(id);
  if (it == drafters_.end()) return;
  leaving_[id] = {.name = it->second.hello.name, .sessions = assignments_->CountOf(id)};
  Drop(id);
}

void DrafterRoster::OnStreamEnd(uint64_t id, StreamEnd why) {
  Leave(id);
  const auto left = leaving_.extract(id);
  if (left.empty()) return;
  // A drafter closes its stream when it is stopped on purpose.
  Log(why == StreamEnd::kClosed ? LogLevel::kInfo : LogLevel::kWarning, "drafter left",
      {{"drafter", left.mapped().name},
       {"sessions", left.mapped().sessions},
       {"reason", DescribeEnd(why)}});
  if (metrics_ == nullptr) return;
  switch (why) {
    case StreamEnd::kClosed: return metrics_->drafters_left_closed.Increment();
    case StreamEnd::kGone: return metrics_->drafters_left_gone.Increment();
    case StreamEnd::kProtocolError: return metrics_->drafters_left_protocol_error.Increment();
    case StreamEnd::kOverload: return metrics_->drafters_left_overload.Increment();
  }
}

void DrafterRoster::Expel(uint64_t id, const Status& reason) {
  const ConnectedDrafter& drafter = drafters_.at(id);
  Log(LogLevel::kError, "drafter broke the protocol; its stream is closed",
      {{"drafter", drafter.hello.name}, {"reason", reason.message()}});
  drafter.link->Close(reason);
  Drop(id);
  if (metrics_ != nullptr) metrics_->drafters_left_protocol_error.Increment();
}

void DrafterRoster::Drop(uint64_t id) {
  translators_.erase(id);
  drafters_.erase(id);
  on_drop_(id);
  CountDrafters();
}

void DrafterRoster::Drain() {
  draining_ = true;
  for (const auto& [id, drafter] : drafters_) drafter.link->SendDrain();
}

int DrafterRoster::vocab_limit() const {
  return std::min(target_.tokenizer.vocab_size, target_.vocab_size);
}

std::vector<DrafterSnapshot> DrafterRoster::Snapshot() const {
  std::vector<DrafterSnapshot> out;
  for (const auto& [id, drafter] : drafters_) {
    out.push_back({.name = drafter.hello.name,
                   .model = drafter.hello.model,
                   .sessions = assignments_->CountOf(id),
                   .max_sessions = drafter.hello.max_sessions,
                   .connected_seconds = Seconds(clock_->Now() - drafter.joined),
                   .drafted_tokens = drafter.drafted_tokens,
                   .accepted_tokens = drafter.accepted_tokens,
                   .round_trip_ms = drafter.punctuality.round_trip().mean * 1e3,
                   .drafting_ms = drafter.drafting.mean * 1e3,
                   .reported_sessions = drafter.load.sessions,
                   .acceptance_head = drafter.hello.acceptance_head,
                   .silent = drafter.punctuality.silent(),
                   .match = drafter.match,
                   .target_tokens = drafter.match.has_value() ? target_.tokens() : 0});
  }
  return out;
}

}  // namespace outrider
