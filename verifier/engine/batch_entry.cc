#include "verifier/engine/batch_entry.h"

#include "verifier/engine/prompt_logprobs.h"

namespace outrider {
namespace {

// Parents of a forward pass's tokens: `pending` tokens in a chain, then the draft, which follows
// the last of them.
std::vector<int32_t> TreeParents(const DraftTree& draft, int pending) {
  std::vector<int32_t> parents;
  parents.reserve(static_cast<size_t>(pending) + static_cast<size_t>(draft.size()));
  for (int row = 0; row < pending; ++row) parents.push_back(row - 1);
  for (int node = 1; node <= draft.size(); ++node) {
    parents.push_back(pending - 1 + draft.parent(node));
  }
  return parents;
}

}  // namespace

BatchEntry MakeBatchEntry(Session& session, const Share& share) {
  BatchEntry entry{.session = &session,
                   .pending = share.pending,
                   .ends_round = share.last && share.pending == session.pending()};
  const auto begin = session.tokens.begin() + session.computed;
  entry.tokens.assign(begin, begin + share.pending);
  if (!entry.ends_round) {
    AddPromptRows(entry);
    return entry;
  }
  const DraftTree& draft = session.drafting.draft();
  for (int node = 1; node <= draft.size(); ++node) entry.tokens.push_back(draft.token(node));
  if (!draft.is_chain()) entry.parents = TreeParents(draft, share.pending);
  for (int row = share.pending - 1; row < entry.rows(); ++row) entry.logit_rows.push_back(row);
  return entry;
}

bool CopiesLogits(const BatchEntry& entry) {
  if (entry.logit_rows.empty()) return false;
  return !entry.ends_round || entry.session->request.logprobs.has_value();
}

ForwardSequence ForwardOf(const BatchEntry& entry) {
  return {.sequence = entry.session->sequence,
          .tokens = entry.tokens,
          .parents = entry.parents,
          .logit_rows = entry.logit_rows,
          .logits_to_host = CopiesLogits(entry)};
}

}  // namespace outrider
