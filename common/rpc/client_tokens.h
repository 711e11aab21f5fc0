// Identifies clients by their tokens, in the same way for every front.
//
// Thread: any; nothing here blocks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/token_file.h"

namespace outrider {

// The name of the token in an authorization header ("Bearer <token>"); nullopt without a known
// token.
std::optional<std::string> BearerOf(std::optional<std::string_view> authorization,
                                    TokenFile& tokens);

// The keys by which a caller is counted.
struct CallerKeys {
  // For fair shares in the engine: the token's name, or else what the caller says of itself, which
  // never equals a token's name.
  std::string client;
  // For the tokenizer's queue: the same if the token has a name, else the caller's network, so that
  // a caller gets no more turns by changing what it says of itself.
  std::string turn;
};

class ClientTokens {
 public:
  // `tokens` null: everybody may call.
  explicit ClientTokens(std::unique_ptr<TokenFile> tokens) : tokens_(std::move(tokens)) {}

  // `authorization`: the header's value. `stated`: what the caller says of itself. `network`: see
  // NetworkOf. kUnauthenticated without a known token.
  Result<CallerKeys> Admit(std::optional<std::string_view> authorization, std::string_view stated,
                           std::string_view network) const;

 private:
  const std::unique_ptr<TokenFile> tokens_;
};

}  // namespace outrider
