#include "verifier/engine/scheduler.h"

#include <algorithm>

namespace outrider {
namespace {

// A session this close to its next token counts as decoding; so does a short prompt.
constexpr int kDecodePending = 4;

bool IsPrefill(const Candidate& c) { return c.pending > kDecodePending; }

}  // namespace

std::vector<Share> ChooseShares(std::vector<Candidate> candidates,
                                const SchedulerOptions& options) {
  std::vector<Share> shares;
  const auto prefill = std::partition(candidates.begin(), candidates.end(),
                                      [](const Candidate& c) { return !IsPrefill(c); });
  std::sort(candidates.begin(), prefill, [](const Candidate& a, const Candidate& b) {
    return a.served != b.served ? a.served < b.served : a.arrival < b.arrival;
  });
  std::sort(prefill, candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.arrival < b.arrival; });

  const bool any_prefill = prefill != candidates.end();
  int decode_left = any_prefill ? options.token_budget * 3 / 4 : options.token_budget;
  int left = options.token_budget;
  int64_t mask_steps = 0;
  const auto fits_masks = [&](const Candidate& c) {
    const bool costs = mask_steps > 0 && c.mask_steps > 0;
    if (costs && mask_steps + c.mask_steps > options.mask_steps) return false;
    mask_steps += c.mask_steps;
    return true;
  };
  for (auto c = candidates.begin(); c != prefill; ++c) {
    const int rows = c->pending + c->draft;
    if (rows > decode_left) break;  // a later one must not overtake it forever
    // It goes first in a later pass, as it was not served in this one.
    if (!fits_masks(*c)) continue;
    shares.push_back({.index = c->index, .pending = c->pending, .last = true});
    decode_left -= rows;
    left -= rows;
  }
  int prefill_left = std::min(left, options.prefill_chunk);
  for (auto c = prefill; c != candidates.end() && prefill_left > 0; ++c) {
    int rows = std::min({c->pending, prefill_left, left});
    const bool last = rows == c->pending && rows + c->draft <= left && fits_masks(*c);
    // The draft must be scored with the last pending token, which waits if there is no room for
    // both, or for the masks.
    if (rows == c->pending && !last) --rows;
    if (rows <= 0) break;
    shares.push_back({.index = c->index, .pending = rows, .last = last});
    prefill_left -= rows;
    left -= rows + (last ? c->draft : 0);
  }
  return shares;
}

}  // namespace outrider
