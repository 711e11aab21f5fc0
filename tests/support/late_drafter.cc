#include "tests/support/late_drafter.h"

#include <algorithm>
#include <utility>

namespace outrider::testing {
namespace {

constexpr uint32_t kToken = 5;

// The draft that a plan requests, up to `depths`: all tokens are the same, so its nodes form a
// chain.
v1::FromDrafter DraftOf(const Asked& asked, uint32_t depths) {
  v1::FromDrafter message;
  v1::Draft* const draft = message.mutable_drafts()->add_drafts();
  draft->set_session(asked.session);
  draft->set_round(asked.round);
  const bool sampled = asked.kind == v1::DRAFT_KIND_SAMPLED;
  uint32_t draws = 1;
  for (uint32_t depth = 0; depth < depths; ++depth) {
    if (sampled && depth < asked.branching.size()) draws *= asked.branching[depth];
    for (uint32_t i = 0; i < draws; ++i) {
      draft->add_token_ids(kToken);
      draft->add_parents(depth);
    }
    if (!sampled) continue;
    v1::DraftRow* const row = draft->add_rows();
    row->add_id_gaps(kToken);
    row->add_weights(65536);
  }
  return message;
}

}  // namespace

LateDrafter::LateDrafter(const std::string& address, const TokenizerFingerprint& tokenizer,
                         const std::string& name, Lateness lateness)
    : lateness_(lateness),
      stream_(address, tokenizer, {.name = name}),
      reader_([this] { stream_.ReadPlans([this](const Asked& asked) { Answer(asked); }); }),
      sender_([this] { SendDelayed(); }) {}

LateDrafter::~LateDrafter() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  sender_.join();
  stream_.Cancel();
  reader_.join();
}

void LateDrafter::Answer(const Asked& asked) {
  ++plans_;
  if (asked.length == 0) return;
  if (lateness_ == Lateness::kUnfinished) {
    v1::FromDrafter part = DraftOf(asked, 1);
    part.mutable_drafts()->mutable_drafts(0)->set_more(true);
    stream_.Send(part);
    return;
  }
  MutexLock lock(mu_);
  // The next plan arrived before the answer to the last one, so that one was too late.
  const bool late = waiting_.contains(asked.session);
  delay_ = late ? delay_ * 3 / 4 : delay_ * 9 / 8;
  delay_ = std::clamp<Duration>(delay_, std::chrono::milliseconds(1), std::chrono::seconds(3));
  waiting_[asked.session] = {.due = std::chrono::steady_clock::now() + delay_, .asked = asked};
  changed_.notify_all();
}

void LateDrafter::SendDelayed() {
  MutexLock lock(mu_);
  while (!stop_) {
    const auto next =
        std::min_element(waiting_.begin(), waiting_.end(),
                         [](const auto& a, const auto& b) { return a.second.due < b.second.due; });
    if (next == waiting_.end()) {
      lock.Wait(changed_);
      continue;
    }
    if (next->second.due > std::chrono::steady_clock::now()) {
      lock.WaitUntil(changed_, next->second.due);
      continue;
    }
    const v1::FromDrafter draft = DraftOf(next->second.asked, next->second.asked.length);
    waiting_.erase(next);
    stream_.Send(draft);
  }
}

}  // namespace outrider::testing
