#include "common/rpc/client_tokens.h"

#include <strings.h>

namespace outrider {
namespace {

constexpr std::string_view kBearer = "Bearer ";

}  // namespace

std::optional<std::string> BearerOf(std::optional<std::string_view> authorization,
                                    TokenFile& tokens) {
  if (!authorization.has_value() || authorization->size() < kBearer.size()) return std::nullopt;
  if (strncasecmp(authorization->data(), kBearer.data(), kBearer.size()) != 0) return std::nullopt;
  return tokens.Find(authorization->substr(kBearer.size()));
}

Result<CallerKeys> ClientTokens::Admit(std::optional<std::string_view> authorization,
                                       std::string_view stated, std::string_view network) const {
  if (tokens_ == nullptr) {
    return CallerKeys{.client = std::string(stated), .turn = std::string(network)};
  }
  const std::optional<std::string> name = BearerOf(authorization, *tokens_);
  if (!name.has_value()) {
    return Unauthenticated("a known token is needed: authorization: Bearer <token>");
  }
  if (!name->empty()) return CallerKeys{.client = "token:" + *name, .turn = "token:" + *name};
  return CallerKeys{.client = "stated:" + std::string(stated),
                    .turn = "network:" + std::string(network)};
}

}  // namespace outrider
