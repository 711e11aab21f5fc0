#include "simulate/fleet/fleet_load.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "common/base/mix_bits.h"
#include "common/routing/page_hashes.h"

namespace outrider {
namespace {

// Before a client tries again after a refusal.
constexpr double kRetrySeconds = 1;
constexpr int kMaxLength = 1 << 16;
// What of a prompt decides where it goes.
constexpr size_t kRoutedPageTokens = 64;
constexpr size_t kMaxRoutedPages = 64;

int Length(const Distribution& distribution, SimulatedRandom& random) {
  return static_cast<int>(
      std::clamp(std::round(distribution.Draw(random)), 1.0, static_cast<double>(kMaxLength)));
}

}  // namespace

FleetLoad::FleetLoad(const FleetScenario& scenario, uint64_t seed, EventQueue* queue,
                     FleetMachines* machines, FleetFigures* figures)
    : scenario_(scenario),
      queue_(queue),
      machines_(machines),
      figures_(figures),
      random_(SplitMix(seed + 2)),
      start_(queue->now()),
      counts_from_(start_ + FromSeconds(scenario.warm_up)) {
  for (const FleetClass& c : scenario.classes) shares_ += c.share;
  figures_->timeline.resize(
      static_cast<size_t>(std::ceil(scenario.seconds / scenario.interval - 1e-9)));
  double left = scenario.seconds;
  for (FleetInterval& interval : figures_->timeline) {
    interval.seconds = std::min(left, scenario.interval);
    left -= interval.seconds;
  }
}

void FleetLoad::Start() {
  if (!scenario_.arrivals.trace.empty()) return ScheduleNextTraced();
  if (scenario_.arrivals.clients == 0) return ScheduleNextArrival();
  for (int client = 0; client < scenario_.arrivals.clients; ++client) {
    queue_->After(FromSeconds(random_.Uniform() * 0.1), [this, client] { Arrive(client); });
  }
}

void FleetLoad::ScheduleNextArrival() {
  const FleetArrivals& arrivals = scenario_.arrivals;
  const double most = arrivals.rate * (1 + arrivals.swing);
  queue_->After(FromSeconds(random_.Exponential() / most), [this, most] {
    const FleetArrivals& a = scenario_.arrivals;
    const double angle = 2 * std::numbers::pi * Seconds(queue_->now() - start_) / a.day;
    // Thinning (Lewis and Shedler 1979).
    if (random_.Uniform() * most < a.rate * (1 + a.swing * std::sin(angle))) Arrive(-1);
    ScheduleNextArrival();
  });
}

void FleetLoad::ScheduleNextTraced() {
  const std::vector<TracedRequest>& trace = scenario_.arrivals.trace;
  if (next_traced_ == trace.size()) return;
  queue_->At(start_ + FromSeconds(trace[next_traced_].at), [this] {
    const TracedRequest& request = scenario_.arrivals.trace[next_traced_++];
    Send(-1, request.request_class, request.prompt_tokens, request.output_tokens);
    ScheduleNextTraced();
  });
}

void FleetLoad::Arrive(int client) {
  double share = random_.Uniform() * shares_;
  size_t chosen = 0;
  while (chosen + 1 < scenario_.classes.size() && share >= scenario_.classes[chosen].share) {
    share -= scenario_.classes[chosen++].share;
  }
  const FleetClass& c = scenario_.classes[chosen];
  const int prompt = Length(c.prompt_tokens, random_);
  const int output = Length(c.output_tokens, random_);
  Send(client, static_cast<int>(chosen), prompt, output);
}

std::vector<TokenId> FleetLoad::MakePrompt(int request_class, int tokens, int shared, uint64_t id) {
  const FleetClass& c = scenario_.classes[static_cast<size_t>(request_class)];
  const uint64_t prefix =
      shared == 0 ? 0 : SplitMix(static_cast<uint64_t>(random_.Below(c.prefixes)) + 1);
  std::vector<TokenId> prompt;
  prompt.reserve(static_cast<size_t>(tokens));
  prompt.push_back(request_class);  // which tells the models the class
  for (int i = 1; i < tokens; ++i) {
    const uint64_t text = i <= shared ? prefix : SplitMix(~id);
    prompt.push_back(static_cast<TokenId>(SplitMix(text + static_cast<uint64_t>(i)) % kFleetVocab));
  }
  return prompt;
}

void FleetLoad::FollowMachines() {
  if (followed_ == machines_->changes()) return;
  followed_ = machines_->changes();
  const std::vector<FleetMachines::VerifierSlot>& slots = machines_->verifiers();
  serving_.clear();
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot].node != nullptr) serving_.push_back(static_cast<int>(slot));
  }
  if (scenario_.routing == FleetRouting::kRoundRobin) return;
  for (int slot = router_.verifiers(); slot < static_cast<int>(slots.size()); ++slot) {
    router_.Add(machines_->VerifierName(static_cast<size_t>(slot)));
  }
  for (int slot = 0; slot < router_.verifiers(); ++slot) {
    router_.SetServing(slot, slots[static_cast<size_t>(slot)].node != nullptr);
  }
}

int FleetLoad::ChooseVerifier(int client, const std::vector<TokenId>& prompt) {
  FollowMachines();
  if (scenario_.routing == FleetRouting::kRoundRobin) {
    if (serving_.empty()) return -1;
    const size_t turn = client >= 0 ? static_cast<size_t>(client) : next_verifier_++;
    return serving_[turn % serving_.size()];
  }
  const int slot = router_.Choose(TokenPageHashes(prompt, kRoutedPageTokens, kMaxRoutedPages));
  if (slot >= 0) router_.Begin(slot);
  return slot;
}

void FleetLoad::Send(int client, int request_class, int prompt_tokens, int output_tokens) {
  const uint64_t id = next_id_++;
  const Time now = queue_->now();
  const FleetClass& c = scenario_.classes[static_cast<size_t>(request_class)];
  const int shared = c.prefixes == 0 ? 0 : std::min(c.prefix_tokens, prompt_tokens - 1);
  FleetRequest request{.id = id,
                       .prompt = MakePrompt(request_class, prompt_tokens, shared, id),
                       .shared_tokens = shared,
                       .output_tokens = output_tokens};
  const int slot = ChooseVerifier(client, request.prompt);
  FleetVerifier* const verifier =
      slot < 0 ? nullptr : machines_->verifiers()[static_cast<size_t>(slot)].node;
  requests_[id] = {.client = client, .verifier = verifier, .slot = slot, .arrived = now};
  ++IntervalOf(now).arrived;
  if (Counts(now)) ++figures_->arrived;
  if (verifier == nullptr) return OnRejected(id);
  verifier->Post([this, request = std::move(request)]() mutable { Submit(std::move(request)); });
}

FleetLoad::Request FleetLoad::Take(uint64_t id) {
  const auto found = requests_.find(id);
  const Request request = found->second;
  requests_.erase(found);
  const bool is_routed = scenario_.routing == FleetRouting::kPrefix && request.slot >= 0;
  if (is_routed) router_.End(request.slot);
  return request;
}

void FleetLoad::Submit(FleetRequest request) {
  const uint64_t id = request.id;
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  if (!found->second.verifier->Submit(std::move(request), this)) OnRejected(id);
}

FleetInterval& FleetLoad::IntervalOf(Time at) {
  const double index = Seconds(at - start_) / scenario_.interval;
  return figures_->timeline[std::min(static_cast<size_t>(index), figures_->timeline.size() - 1)];
}

void FleetLoad::OnTokens(double tokens, Time now) {
  if (IsOver(now)) return;
  IntervalOf(now).tokens += tokens;
  if (Counts(now)) figures_->tokens += tokens;
}

void FleetLoad::OnChunk(uint64_t id, int tokens, Time now) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || IsOver(now)) return;
  Request& request = found->second;
  if (request.tokens == 0) {
    const double seconds = Seconds(now - request.arrived);
    FleetInterval& interval = IntervalOf(now);
    interval.first_token_seconds += seconds;
    ++interval.first_tokens;
    if (Counts(request.arrived)) figures_->first_token.Add(seconds);
    request.first_token = now;
    request.first_tokens = tokens;
  } else {
    request.longest_pause = std::max(request.longest_pause, Seconds(now - request.last_token));
  }
  request.tokens += tokens;
  request.last_token = now;
}

void FleetLoad::OnRest(uint64_t id, int tokens, Time now) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || IsOver(now)) return;
  found->second.tokens += tokens;
  found->second.last_token = now;
}

void FleetLoad::OnFinished(uint64_t id, const FleetDrafts& drafts) {
  if (!requests_.contains(id)) return;
  const Request request = Take(id);
  Record(request, drafts);
  Continue(request.client, request.last_token);
}

void FleetLoad::Record(const Request& request, const FleetDrafts& drafts) {
  const int further = request.tokens - request.first_tokens;
  const double seconds = Seconds(request.last_token - request.first_token);
  if (further > 0) {
    FleetInterval& interval = IntervalOf(request.last_token);
    interval.between_tokens_seconds += seconds / further;
    ++interval.finished;
  }
  if (!Counts(request.arrived)) return;
  ++figures_->finished;
  figures_->draft_tokens += drafts.drafted;
  figures_->accepted_tokens += drafts.accepted;
  if (further > 0) figures_->between_tokens.Add(seconds / further);
  if (request.longest_pause > 0) figures_->longest_pause.Add(request.longest_pause);
}

void FleetLoad::OnFailed(uint64_t id) {
  if (!requests_.contains(id)) return;
  const Request request = Take(id);
  ++IntervalOf(queue_->now()).failed;
  if (Counts(request.arrived)) ++figures_->failed;
  Continue(request.client, queue_->now());
}

void FleetLoad::OnRejected(uint64_t id) {
  const Request request = Take(id);
  ++IntervalOf(queue_->now()).rejected;
  if (Counts(request.arrived)) ++figures_->rejected;
  if (request.client < 0) return;
  queue_->After(FromSeconds(kRetrySeconds), [this, client = request.client] { Arrive(client); });
}

void FleetLoad::Continue(int client, Time at) {
  if (client < 0) return;
  const Duration pause = FromSeconds(scenario_.arrivals.pause.Draw(random_));
  queue_->At(at + pause, [this, client] { Arrive(client); });
}

void FleetLoad::FailRequestsOf(const FleetVerifier* verifier) {
  std::vector<uint64_t> ids;
  for (const auto& [id, request] : requests_) {
    if (request.verifier == verifier) ids.push_back(id);
  }
  for (const uint64_t id : ids) OnFailed(id);
}

}  // namespace outrider
