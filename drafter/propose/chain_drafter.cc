#include "drafter/propose/chain_drafter.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "common/base/log.h"

namespace outrider {

int ChainDrafter::Depths(std::span<const PassShare> shares) const {
  if (!parts_.forward->on_device() || shares.empty() ||
      shares.size() != static_cast<size_t>(parts_.sessions->size())) {
    return 0;
  }
  int depths = std::numeric_limits<int>::max();
  for (const PassShare& share : shares) {
    const DraftSession& session = share.mirror().session;
    if (share.logit_rows != 1 || share.recorded() || !session.draws_chain()) return 0;
    depths = std::min(depths, depths_->DepthsDue(session));
  }
  return depths;
}

void ChainDrafter::Run(std::span<const PassShare> shares, int depths) {
  const bool reads_prompt = ReadsPrompt(shares);
  const Time begin = parts_.clock->Now();
  const Result<DraftForward::Chains> chains = parts_.forward->RunChains(shares, depths);
  if (!chains.ok()) {
    depths_->RefuseAll(shares, chains.status());
    return;
  }
  std::vector<StepReport> reports = Draw(shares, depths, chains->rows);
  const double seconds = Seconds(parts_.clock->Now() - begin) / depths;
  reports.front().device_bytes = chains->device_bytes;
  for (StepReport& report : reports) {
    report.seconds = seconds;
    report.graphs = parts_.forward->graph_counts();
    if (!reads_prompt) parts_.head->OnPass(seconds);
    parts_.observers->Notify(&DraftObserver::OnStep, report);
  }
}

std::vector<StepReport> ChainDrafter::Draw(std::span<const PassShare> shares, int depths,
                                           std::span<const PickedRow> rows) {
  std::vector<StepReport> reports(static_cast<size_t>(depths));
  std::vector<bool> is_over(shares.size(), false), is_held(shares.size(), true);
  for (StepReport& report : reports) {
    const bool is_first = &report == &reports.front();
    for (size_t i = 0; i < shares.size(); ++i) {
      const PassShare& share = shares[i];
      const std::span<const PickedRow> row = rows.first(1);
      rows = rows.subspan(1);
      ++report.sessions;
      ++report.device_rows;
      report.rows += is_first ? share.tokens : 1;
      if (is_over[i]) continue;
      DraftSession& session = share.held->mirror->session;
      if (is_first && !session.Missing().empty()) session.MarkFed(share.tokens);
      is_held[i] = depths_->Draw(*share.held, row, {}, {}, &report);
      // After a broken row the host goes on by itself.
      is_over[i] =
          !is_held[i] || !session.drafting() || row[0].broken || !IsSame(session, row[0].sampled);
    }
  }
  // Drops what was computed after another token than the host's.
  for (size_t i = 0; i < shares.size(); ++i) {
    if (!is_held[i]) continue;
    Mirror& mirror = *shares[i].held->mirror;
    mirror.kv.Drop(mirror.session.length() + mirror.session.depths_drawn() - 1);
  }
  return reports;
}

bool ChainDrafter::IsSame(const DraftSession& session, TokenId drawn) {
  const TokenId token = session.draft().token(session.draft().size());
  if (token == drawn) return true;
  // The following tokens are drafted again, so only time is lost.
  if (!std::exchange(told_of_other_token_, true)) {
    Log(LogLevel::kError, "the device drew another token than the host, told once",
        {{"round", session.round()},
         {"depth", session.depths_drawn()},
         {"device", drawn},
         {"host", token}});
  }
  return false;
}

}  // namespace outrider
