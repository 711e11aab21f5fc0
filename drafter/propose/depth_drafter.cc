#include "drafter/propose/depth_drafter.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "common/base/log.h"

namespace outrider {

void DepthDrafter::Run(std::span<const PassShare> shares) {
  const bool ahead = shares.front().guess != nullptr;
  const bool reads_prompt = ReadsPrompt(shares);
  const Time begin = parts_.clock->Now();
  const Result<DraftForward::Pass> pass = parts_.forward->Run(shares);
  if (!pass.ok()) {
    RefuseAll(shares, pass.status());
    return;
  }
  StepReport report{.sessions = static_cast<int>(shares.size()),
                    .ahead = ahead,
                    .device_rows = pass->device_rows,
                    .device_bytes = pass->device_bytes};
  for (size_t i = 0; i < shares.size(); ++i) Process(shares[i], pass->shares[i], &report);
  report.seconds = Seconds(parts_.clock->Now() - begin);
  report.graphs = parts_.forward->graph_counts();
  if (!ahead && !reads_prompt) parts_.head->OnPass(report.seconds);
  // The receiving threads may share this core.
  if (ahead) std::this_thread::yield();
  parts_.observers->Notify(&DraftObserver::OnStep, report);
}

void DepthDrafter::Process(const PassShare& share, const ShareRows& computed, StepReport* report) {
  report->rows += share.tokens;
  std::vector<float> accepted;
  if (share.mirror().session.by_head() && !computed.rows.empty()) {
    accepted = parts_.head->Predict(computed.states);
  }
  const std::span<const float> kept = share.recorded() ? computed.states : std::span<const float>();
  if (share.guess != nullptr) {
    report->drafted_tokens +=
        share.held->ahead.Advance(share.guess, share.tokens, computed.rows, accepted, kept);
    parts_.sender->QueueEarlyDraft(*share.held, share.guess);
    return;
  }
  DraftSession& session = share.held->mirror->session;
  if (!session.Missing().empty()) session.MarkFed(share.tokens);
  if (!computed.rows.empty()) Draw(*share.held, computed.rows, accepted, kept, report);
}

bool DepthDrafter::Draw(HeldSession& held, std::span<const PickedRow> rows,
                        std::span<const float> accepted, std::span<const float> states,
                        StepReport* report) {
  parts_.sessions->SharePrefix(held);
  Mirror& mirror = *held.mirror;
  const DraftSession& session = mirror.session;
  const int nodes = session.draft().size(), broken = session.broken_rows();
  mirror.DrawDepth(rows, accepted, states);
  report->drafted_tokens += session.draft().size() - nodes;
  report->broken_rows += session.broken_rows() - broken;
  if (!session.drafting() && !session.has_chunk()) {
    parts_.sessions->Refuse(
        *held.connection, held.id, session.round(),
        session.broken_rows() > broken
            ? Internal("the draft model's logits are NaN or infinite")
            : FailedPrecondition("none of the tokens that may follow is in both vocabularies"));
    return false;
  }
  // The parts of a draft may not depend on its tokens: a verifier that goes on without the rest
  // would look at a token and then drop it.
  const int depths = session.has_fixed_length() ? chunk_depths_ : 1;
  if (session.drafting() && session.depths_drawn() % depths != 0) return true;
  parts_.sender->QueueDraft(held);
  return true;
}

int DepthDrafter::DepthsDue(const DraftSession& session) const {
  const int depth = session.depths_drawn();
  return std::min(chunk_depths_ - depth % chunk_depths_, session.shape().length - depth);
}

void DepthDrafter::RefuseAll(std::span<const PassShare> shares, const Status& why) {
  Log(LogLevel::kError, "forward pass failed", {{"reason", why.ToString()}});
  for (const PassShare& share : shares) {
    if (share.guess != nullptr) {  // one of several of its session, for which nobody waits
      share.held->ahead.DropPages();
      continue;
    }
    const uint32_t round = share.held->mirror->session.round();
    parts_.sessions->Refuse(*share.held->connection, share.held->id, round, why);
  }
}

}  // namespace outrider
