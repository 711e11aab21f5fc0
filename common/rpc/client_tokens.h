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

class ClientTokens {
 public:
  // `tokens` null: everybody may call.
  explicit ClientTokens(std::unique_ptr<TokenFile> tokens) : tokens_(std::move(tokens)) {}

  // The key under which the caller's requests are counted for fair shares: its token's name.
  // Without one, `stated`, what it says of itself, which no token's name is taken for.
  // kUnauthenticated without a token that is known.
  Result<std::string> Admit(std::optional<std::string_view> authorization,
                            std::string_view stated) const;

 private:
  const std::unique_ptr<TokenFile> tokens_;
};

}  // namespace outrider
