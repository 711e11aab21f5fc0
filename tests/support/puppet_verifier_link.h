// A connection whose verifier is the test: it records what the loop sends and answers nothing.
//
// Thread: any.
#pragma once

#include <condition_variable>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

class PuppetVerifierLink final : public VerifierLink {
 public:
  void SendDrafts(std::vector<DraftPart> drafts) override OUTRIDER_EXCLUDES(mu_);
  void SendLoad(const DrafterLoad& load) override OUTRIDER_EXCLUDES(mu_);
  void Close() override OUTRIDER_EXCLUDES(mu_);

  // The drafts sent since the last call, batch by batch.
  std::vector<std::vector<DraftPart>> TakeBatches() OUTRIDER_EXCLUDES(mu_);
  // The same as one list.
  std::vector<DraftPart> TakeDrafts() OUTRIDER_EXCLUDES(mu_);
  // Early drafts sent since the last call; they are not in any batch.
  std::vector<DraftPart> TakeEarly() OUTRIDER_EXCLUDES(mu_);
  // Waits until there is something to take; empty if `deadline` passes first.
  std::vector<DraftPart> WaitForDrafts(Time deadline) OUTRIDER_EXCLUDES(mu_);
  std::vector<DrafterLoad> TakeLoads() OUTRIDER_EXCLUDES(mu_);
  bool closed() OUTRIDER_EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::condition_variable sent_;
  std::vector<std::vector<DraftPart>> batches_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<DraftPart> early_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<DrafterLoad> loads_ OUTRIDER_GUARDED_BY(mu_);
  bool closed_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
