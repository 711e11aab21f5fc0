// The opening of a session, as sent by a verifier.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/spec/draft_tree.h"
#include "common/spec/drafting.h"

namespace outrider {

inline SessionOpening Opening(uint64_t id, DraftShape shape,
                              std::vector<TokenId> tokens = {3, 1, 4, 1, 5}) {
  SessionOpening open;
  open.session = id;
  open.prompt_tokens = static_cast<int>(tokens.size());
  open.tokens = std::move(tokens);
  open.seed = 1000 + id;
  open.plan = {.round = 1, .shape = std::move(shape)};
  return open;
}

inline SessionOpening Opening(uint64_t id, int length,
                              std::vector<TokenId> tokens = {3, 1, 4, 1, 5}) {
  return Opening(id, Sequences(1, length), std::move(tokens));
}

}  // namespace outrider
