// Lookahead drafting for one session while the verdict on its draft is under way: for each likely
// end of the round, it drafts the next round of the session as it would be then. If the verdict is
// one of these ends, its draft is already there; the others are discarded.
//
// It is lossless. The guessed ends follow from the draft model's distributions, from the draft and
// from the verdict's delay; the next round's draft tokens follow from that round's random numbers,
// which are independent of all these, and from the tokens before them. So a draft made ahead is the
// same that would be made after the verdict, and whether it is used does not depend on its tokens.
//
// SpecEdge (proactive drafting) and PEARL (post-verify) hide the draft phase likewise.
//
// Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>

#include "common/model/model.h"
#include "common/spec/drafting.h"
#include "drafter/propose/mirror.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

class SessionLookahead {
 public:
  struct Guess {
    int32_t node = 0;             // the last accepted node
    std::optional<TokenId> next;  // nullopt: still to be guessed from the logits there
    const Guess* stem = nullptr;  // its KV has the tokens up to `node`; nullptr: the session's has
    bool failed = false;          // no pages or no context left
    std::unique_ptr<Mirror> mirror = nullptr;  // set once there is a token to feed
    bool is_sent = false;                      // its draft was sent early

    // Tokens that it has to feed next; 0: it is complete or has failed.
    int wants() const;
    // Logits rows that feeding `tokens` of them produces.
    int logit_rows(int tokens) const;
    // Whether its draft is complete and not empty.
    bool is_drafted() const;
  };
  // The result for a verdict: the session after it, and whether the verifier has its draft.
  struct Hit {
    // nullptr: that end was not guessed, or (is_sent) its pages were freed
    std::unique_ptr<Mirror> mirror = nullptr;
    bool is_sent = false;
  };

  // Without guesses.
  SessionLookahead() = default;
  // Guesses how the complete draft of `now` will be decided, feeding at most `tokens` tokens in
  // all. All pointers must outlive it.
  SessionLookahead(const Mirror* now, Model* model, PageBudget* budget, int tokens);

  bool begun() const { return now_ != nullptr; }
  // The most likely guess after `last` (nullptr: of all) that needs at most `rows` tokens, all of
  // which have to be fed. nullptr: none.
  Guess* Next(const Guess* last, int rows);
  // Adds what has to be picked from the rows after the guess's tokens to a step's batch.
  void AddRows(const Guess& guess, PickBatch* batch) const;
  // `tokens` of a guess were fed and `rows` picked after the last ones; `accepted` and `states` are
  // as in Mirror::DrawDepth. Returns the number of nodes drafted.
  int Advance(Guess* guess, int tokens, std::span<const PickedRow> rows,
              std::span<const float> accepted, std::span<const float> states);

  // The guess's draft, to be sent before the verdict; nullopt: it is incomplete, or the limit of
  // early drafts is reached.
  std::optional<DraftPart> TakeEarly(Guess* guess);

  // Drops the guesses whose drafts were not sent, to free their pages.
  void DropUnsent();
  // Frees the pages of all. It still knows what was sent, as the verifier may use that.
  void DropPages();

  // The session after `verdict`, with the verdict's plan adopted, if that end was guessed and its
  // drafting has begun. Discards all other guesses.
  Hit TakeMatch(const SessionVerdict& verdict);

 private:
  // Forks the KV; sets `failed` if that is impossible.
  void Start(Guess& guess);
  // Number of tokens to guess after a fully accepted draft.
  int next_tokens() const;

  const Mirror* now_ = nullptr;
  Model* model_ = nullptr;
  PageBudget* pages_ = nullptr;
  int tokens_left_ = 0;
  int sent_ = 0;              // early drafts sent
  std::list<Guess> guesses_;  // most likely first, as far as known
};

}  // namespace outrider
