// Who may call: clients by a token, drafters by a token or by the name in their certificate.
//
// Thread: any; nothing here waits.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/client_tokens.h"
#include "common/rpc/token_file.h"

namespace outrider {

// The NetworkOf the address in gRPC's "ipv4:10.0.0.1:443" or "ipv6:%5B2001:db8::1%5D:443"; any
// other text unchanged.
std::string NetworkOfPeer(const std::string& peer);

class ClientAuthorization {
 public:
  // `tokens` must outlive it.
  explicit ClientAuthorization(const ClientTokens* tokens) : tokens_(tokens) {}

  // From the call's metadata `authorization` and `outrider-client`. kUnauthenticated without a
  // token that is known.
  Result<CallerKeys> Admit(const grpc::ServerContextBase& context) const;

 private:
  const ClientTokens* const tokens_;
};

class DrafterAuthorization {
 public:
  // Either is enough. `tokens` null and `names` empty: any drafter may attach.
  DrafterAuthorization(std::unique_ptr<TokenFile> tokens, std::vector<std::string> names)
      : tokens_(std::move(tokens)), names_(std::move(names)) {}

  // kUnauthenticated without a token that is known, kPermissionDenied for a certificate of another
  // name where tokens are not taken.
  Status Admit(const grpc::ServerContextBase& context) const;

 private:
  const std::unique_ptr<TokenFile> tokens_;
  const std::vector<std::string> names_;
};

}  // namespace outrider
