// Channels as the client and the drafter open them: keepalive, message limits, our user agent.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "common/rpc/tls_files.h"

namespace outrider {

struct ChannelOptions {
  int max_message_bytes = 16 << 20;
  // Upper bound of gRPC's own reconnect backoff.
  int max_reconnect_backoff_ms = 1000;
  // The authorities that the server's certificate must come from, and our own certificate if any.
  // Null: plaintext.
  std::shared_ptr<const TlsMaterial> tls;
  // The name that the server's certificate must carry; "": the authority's host.
  std::string tls_server_name;
  // "host:port" that was dialled, where the address is one that it resolved to; "": the address.
  std::string authority;
  // The address may stand for several servers (dns:///name:port, ipv4:a:p,b:p): calls go to each in
  // turn that says it serves `balanced_service`, and one that was refused with UNAVAILABLE before
  // its first answer is tried again at another. "": one server.
  std::string balanced_service;
};

// Never fails: a bad address, or a server whose certificate is not right, shows at the first call
// (UNAVAILABLE).
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelOptions& options);

}  // namespace outrider
