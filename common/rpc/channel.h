// Channels as the client and the drafter open them: keepalive, message limits, our user agent.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

namespace outrider {

struct ChannelOptions {
  int max_message_bytes = 16 << 20;
  // Upper bound of gRPC's own reconnect backoff.
  int max_reconnect_backoff_ms = 1000;
};

// Plaintext. Never fails: a bad address shows at the first call (UNAVAILABLE).
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelOptions& options);

}  // namespace outrider
