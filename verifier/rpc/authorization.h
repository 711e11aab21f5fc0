// Decides who may call: clients by a token, drafters by a token or by the name in their
// certificate.
//
// Thread: any; nothing here blocks.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/client_tokens.h"
#include "common/rpc/token_file.h"

namespace outrider {

// NetworkOf the address in gRPC's "ipv4:10.0.0.1:443" or "ipv6:%5B2001:db8::1%5D:443"; returns any
// other text unchanged.
std::string NetworkOfPeer(const std::string& peer);

class ClientAuthorization {
 public:
  // `tokens` must outlive it.
  explicit ClientAuthorization(const ClientTokens* tokens) : tokens_(tokens) {}

  // Reads the call's metadata `authorization` and `outrider-client`. kUnauthenticated without a
  // known token.
  Result<CallerKeys> Admit(const grpc::ServerContextBase& context) const;

 private:
  const ClientTokens* const tokens_;
};

class DrafterAuthorization {
 public:
  // Either is sufficient. `tokens` null and `names` empty: any drafter may attach.
  DrafterAuthorization(std::unique_ptr<TokenFile> tokens, std::vector<std::string> names)
      : tokens_(std::move(tokens)), names_(std::move(names)) {}

  // kUnauthenticated without a known token, kPermissionDenied for a certificate with another name
  // if tokens are not accepted.
  Status Admit(const grpc::ServerContextBase& context) const;

 private:
  const std::unique_ptr<TokenFile> tokens_;
  const std::vector<std::string> names_;
};

}  // namespace outrider
