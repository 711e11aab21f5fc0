#include "verifier/engine/admission.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace outrider {

Admission::Admission(const AdmissionOptions& options, SessionTable* sessions, Model* model,
                     EngineObservers* observers)
    : options_(options),
      sessions_(*sessions),
      model_(*model),
      observers_(*observers),
      prefixes_(model, options.prefix_digest) {}

Status Admission::CheckQueue(const std::string& client, int more) {
  if (waiting() + more > options_.max_waiting) {
    observers_.Notify(&EngineObserver::OnRequestRefused, Refusal::kQueueFull);
    return ResourceExhausted("the queue has no room for " + std::to_string(more) +
                             " more: " + std::to_string(waiting()) + " of " +
                             std::to_string(options_.max_waiting) + " wait; try again later");
  }
  // One client's cannot be more than all.
  if (waiting() + more <= options_.max_waiting_per_client) return Status();
  const auto waiting_of_client =
      std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
        return !entry.second->is_running() && entry.second->request.client == client;
      });
  if (waiting_of_client + more > options_.max_waiting_per_client) {
    observers_.Notify(&EngineObserver::OnRequestRefused, Refusal::kClientShare);
    return ResourceExhausted("this client's share of the queue has no room for " +
                             std::to_string(more) + " more: " + std::to_string(waiting_of_client) +
                             " of " + std::to_string(options_.max_waiting_per_client) +
                             " wait; try again later");
  }
  return Status();
}

bool Admission::IsReady(const Session& session) const {
  if (session.is_running()) return false;
  if (!session.after.has_value()) return true;
  const auto first = sessions_.find(*session.after);
  return first == sessions_.end() || first->second->round > 1;
}

Session* Admission::NextWaiting() {
  if (waiting() == 1) {  // most often, and then most often the youngest
    const auto waits = [](const auto& entry) { return !entry.second->is_running(); };
    Session* const only = std::find_if(sessions_.rbegin(), sessions_.rend(), waits)->second.get();
    return IsReady(*only) ? only : nullptr;
  }
  std::map<std::string_view, int> running;
  for (const auto& [id, session] : sessions_) {
    if (session->is_running()) ++running[session->request.client];
  }
  Session* next = nullptr;
  int fewest = 0;
  for (const auto& [id, session] : sessions_) {
    if (!IsReady(*session)) continue;
    const int running_of_client = running[session->request.client];
    if (next != nullptr && running_of_client >= fewest) continue;
    next = session.get();
    fewest = running_of_client;
  }
  return next;
}

Session* Admission::AdmitNext(Time now) {
  if (running_ >= options_.max_running || waiting() == 0) return nullptr;
  Session* const session = NextWaiting();
  if (session == nullptr) return nullptr;
  // The last token is always computed, because its logits are needed.
  const std::span<const TokenId> tokens = session->tokens;
  const bool from_cache =
      options_.prefix_cache && !session->request.prompt_logprobs.has_value();  // needs every row
  const SequenceId sequence =
      from_cache ? prefixes_.Fork(tokens.first(tokens.size() - 1)) : model_.NewSequence();
  // Requires room for the known tokens and a spare page per running session, or the new session
  // would be the first to be preempted. Each step needs more.
  const int known = static_cast<int>(tokens.size()) + 1;
  if (!prefixes_.MakeRoom(model_.PagesNeeded(sequence, known) + running_)) {
    model_.Release(sequence);
    return nullptr;
  }
  OUTRIDER_CHECK(model_.Reserve(sequence, known).ok());
  session->sequence = sequence;
  session->computed = model_.length(sequence);
  ++running_;
  const bool is_first = !session->times.admitted.has_value();
  if (is_first) {
    session->times.admitted = now;
    session->summary.cached_tokens = session->computed;
  }
  observers_.Notify(&EngineObserver::OnAdmitted, *session,
                    from_cache ? static_cast<int>(tokens.size()) : 0, session->computed, is_first);
  return session;
}

bool Admission::Reserve(Session& session, int tokens) {
  while (!prefixes_.MakeRoom(model_.PagesNeeded(session.sequence, tokens))) {
    const auto youngest = std::find_if(sessions_.rbegin(), sessions_.rend(), [](const auto& entry) {
      return entry.second->is_running();
    });
    if (youngest->second.get() == &session) return false;
    Preempt(*youngest->second);
  }
  OUTRIDER_CHECK(model_.Reserve(session.sequence, tokens).ok());
  return true;
}

void Admission::Preempt(Session& session) {
  Release(session);
  session.computed = 0;
  session.round_preempted = true;
  observers_.Notify(&EngineObserver::OnPreempted, session);
}

void Admission::SharePrompt(const Session& session) {
  if (!options_.prefix_cache) return;
  const int whole = session.prompt_tokens / model_.page_tokens() * model_.page_tokens();
  if (whole == 0) return;
  if (const Result<SequenceId> fork = model_.Fork(session.sequence, whole); fork.ok()) {
    prefixes_.Insert(std::span(session.tokens).first(static_cast<size_t>(whole)), *fork);
  }
}

void Admission::CacheText(Session& session) {
  if (!options_.prefix_cache) return;
  prefixes_.Insert(std::span(session.tokens).first(static_cast<size_t>(session.computed)),
                   std::exchange(session.sequence, kNoSequence));
  --running_;
}

void Admission::Release(Session& session) {
  if (!session.is_running()) return;
  model_.Release(std::exchange(session.sequence, kNoSequence));
  --running_;
}

void Admission::RecordRequest(double seconds) {
  constexpr double kGain = 0.1;  // per request
  request_seconds_ =
      request_seconds_ > 0 ? request_seconds_ + kGain * (seconds - request_seconds_) : seconds;
}

Duration Admission::RetryAfter() const {
  constexpr double kDefaultSeconds = 1, kMinSeconds = 0.05, kMaxSeconds = 30;
  const double seconds = request_seconds_ > 0 && running_ > 0
                             ? request_seconds_ * (waiting() + 1) / running_
                             : kDefaultSeconds;
  return FromSeconds(std::clamp(seconds, kMinSeconds, kMaxSeconds));
}

}  // namespace outrider
