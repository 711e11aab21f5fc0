// Drafts ahead for one session while the verdict on its draft is under way: for each likely end of
// the round the session as it would be then, drafting its next round. A verdict that names one of
// them is answered with the draft that is there; the others are discarded unseen.
//
// It is lossless. Which ends are guessed follows from the draft model's distributions, from what
// was drawn and from the verdict's delay; the next round's draws follow from that round's random
// numbers, which have no part in any of these, and from the tokens before them. A draft made ahead
// is thus the very draft that would be made after the verdict, and whether it is used does not
// depend on what was drawn in it.
//
// As SpecEdge (proactive drafting) and PEARL (post-verify) hide the draft phase.
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
    int32_t node = 0;             // accepted up to here
    std::optional<TokenId> next;  // not set: first to be guessed itself, from the logits there
    const Guess* stem = nullptr;  // whose KV holds the tokens up to `node`; nullptr: the session's
    bool failed = false;          // no pages or no context left for it
    std::unique_ptr<Mirror> mirror = nullptr;  // once there is a token to feed
    bool is_sent = false;                      // its draft, early

    // Tokens that it has to feed next; 0: it is complete or has failed.
    int wants() const;
    // Logits rows that feeding `tokens` of them gives.
    int logit_rows(int tokens) const;
    // Whether its draft is whole and has a token at least.
    bool is_drafted() const;
  };
  // What a verdict finds: the session as it is then, and whether the verifier has its draft.
  struct Hit {
    std::unique_ptr<Mirror> mirror = nullptr;  // nullptr: that end was not guessed
    bool is_sent = false;
  };

  // No guesses.
  SessionLookahead() = default;
  // Guesses how the complete draft of `now` will be decided, feeding at most `tokens` tokens in
  // all. All pointers must outlive it.
  SessionLookahead(const Mirror* now, Model* model, PageBudget* budget, int tokens);

  bool begun() const { return now_ != nullptr; }
  // The most likely guess after `last` (nullptr: of all) that wants at most `rows` tokens, to be
  // fed all of them. nullptr: none.
  Guess* Next(const Guess* last, int rows);
  // Adds what is to be picked from the rows after the guess's tokens to a step's batch.
  void AddRows(const Guess& guess, PickBatch* batch) const;
  // `tokens` of a guess were fed, `rows` were picked after the last ones, `accepted` and `states`
  // are as for Mirror::DrawDepth. Returns the number of nodes drawn.
  int Advance(Guess* guess, int tokens, std::span<const PickedRow> rows,
              std::span<const float> accepted, std::span<const float> states);

  // The guess's draft, to be sent before the verdict; nullopt: it is not whole, or as many were
  // sent as may be.
  std::optional<DraftPart> TakeEarly(Guess* guess);

  // The session as `verdict` leaves it, if that end was guessed and drafting has begun there, with
  // the verdict's plan adopted. All other guesses are discarded.
  Hit Take(const SessionVerdict& verdict);

 private:
  // Forks the KV; sets `failed` when that cannot be.
  void Start(Guess& guess);
  // Tokens that are guessed after a draft that is accepted to its end.
  int next_tokens() const;

  const Mirror* now_ = nullptr;
  Model* model_ = nullptr;
  PageBudget* pages_ = nullptr;
  int tokens_left_ = 0;
  int sent_ = 0;              // early drafts
  std::list<Guess> guesses_;  // most likely first, as far as that is known
};

}  // namespace outrider
