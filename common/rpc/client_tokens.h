// Who a client is, by the token that it shows: the same for every front.
//
// Thread: any; nothing here waits.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/token_file.h"

namespace outrider {

// The name of the token in the value of an authorization header ("Bearer <token>"); nullopt when
// it shows none that is known.
std::optional<std::string> BearerOf(std::optional<std::string_view> authorization,
                                    TokenFile& tokens);

// The keys by which a caller is counted.
struct CallerKeys {
  // In the engine, for fair shares: its token's name. Without one, what it says of itself, which is
  // never taken for a token's name.
  std::string client;
  // In the tokenizer's queue: the same where the token has a name, else the network that it calls
  // from. A caller gets no more turns by what it says of itself.
  std::string turn;
};

class ClientTokens {
 public:
  // `tokens` null: everybody may call.
  explicit ClientTokens(std::unique_ptr<TokenFile> tokens) : tokens_(std::move(tokens)) {}

  // `authorization`: the value of the header. `stated`: what the caller says of itself. `network`:
  // as NetworkOf has it. kUnauthenticated without a token that is known.
  Result<CallerKeys> Admit(std::optional<std::string_view> authorization, std::string_view stated,
                           std::string_view network) const;

 private:
  const std::unique_ptr<TokenFile> tokens_;
};

}  // namespace outrider
