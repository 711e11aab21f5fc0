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

// The keys by which a caller is counted.
struct CallerKeys {
  std::string client;  // in the engine: as ClientTokens::Admit
  // In the tokenizer's queue: the same where a token has a name, else the address that it calls
  // from. What a caller says of itself gives nobody more turns.
  std::string turn;
};

// The part of gRPC's "ipv4:10.0.0.1:443" or "ipv6:%5B2001:db8::1%5D:443" that is counted as one, as
// PeerOf of common/net/listener.h has it.
std::string NetworkOf(const std::string& peer);

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
