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
  // The name that the server's certificate must carry; "": the address's host.
  std::string tls_server_name;
};

// Never fails: a bad address, or a server whose certificate is not right, shows at the first call
// (UNAVAILABLE).
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelOptions& options);

}  // namespace outrider
