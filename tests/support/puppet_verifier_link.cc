#include "tests/support/puppet_verifier_link.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace outrider {
namespace {

std::vector<DraftPart> Flatten(std::vector<std::vector<DraftPart>> batches) {
  std::vector<DraftPart> drafts;
  for (std::vector<DraftPart>& batch : batches) {
    for (DraftPart& draft : batch) drafts.push_back(std::move(draft));
  }
  return drafts;
}

}  // namespace

void PuppetVerifierLink::SendDrafts(std::vector<DraftPart> drafts) {
  const auto early = std::stable_partition(
      drafts.begin(), drafts.end(), [](const DraftPart& part) { return !part.early.has_value(); });
  MutexLock lock(mu_);
  early_.insert(early_.end(), std::move_iterator(early), std::move_iterator(drafts.end()));
  drafts.erase(early, drafts.end());
  if (drafts.empty()) return;
  batches_.push_back(std::move(drafts));
  sent_.notify_all();
}

std::vector<DraftPart> PuppetVerifierLink::TakeEarly() {
  MutexLock lock(mu_);
  return std::exchange(early_, {});
}

void PuppetVerifierLink::SendLoad(const DrafterLoad& load) {
  MutexLock lock(mu_);
  loads_.push_back(load);
}

void PuppetVerifierLink::Close() {
  MutexLock lock(mu_);
  closed_ = true;
}

bool PuppetVerifierLink::closed() {
  MutexLock lock(mu_);
  return closed_;
}

std::vector<std::vector<DraftPart>> PuppetVerifierLink::TakeBatches() {
  MutexLock lock(mu_);
  return std::exchange(batches_, {});
}

std::vector<DraftPart> PuppetVerifierLink::TakeDrafts() { return Flatten(TakeBatches()); }

std::vector<DraftPart> PuppetVerifierLink::WaitForDrafts(Time deadline) {
  MutexLock lock(mu_);
  while (batches_.empty()) {
    if (lock.WaitUntil(sent_, deadline) == std::cv_status::timeout) break;
  }
  return Flatten(std::exchange(batches_, {}));
}

std::vector<DrafterLoad> PuppetVerifierLink::TakeLoads() {
  MutexLock lock(mu_);
  return std::exchange(loads_, {});
}

}  // namespace outrider
