// The rounds of a step that are decided on the model's device, where their logits are: what goes
// there of a session, and what comes back in place of its rows.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

#include <cstddef>

#include "common/backend/verify_batch.h"
#include "common/model/model.h"
#include "common/spec/draft.h"
#include "verifier/engine/decided_round.h"
#include "verifier/engine/session.h"

namespace outrider {

class DeviceRounds {
 public:
  // `allowed`: ids from here on are never sampled. The model must outlive this.
  DeviceRounds(Model* model, int allowed) : model_(model), allowed_(allowed) {}

  // Whether the session's next round goes to the device. Not where somebody looks at its rows
  // (log probabilities), where tokens are suppressed in some of its rows and not in others (a draft
  // that crosses min_tokens), nor by a rule that the device does not know: those rows, and no
  // others, come to the host.
  bool Takes(const Session& session) const;

  // One step: the sessions in the order of the forward pass, each with the rows that it wants.
  void Begin();
  void Add(const Session& session);
  void Skip(int rows) { batch_.SkipRows(rows); }
  int size() const { return batch_.sessions(); }
  // After the forward pass. Without sessions it does nothing.
  void Run();
  // Of the session, in the order of Add.
  DecidedRound Next(const Session& session);

 private:
  Model* model_;
  int allowed_;
  VerifyBatch batch_;
  DeviceVerdicts verdicts_;
  size_t next_session_ = 0, next_node_ = 0;
};

}  // namespace outrider
