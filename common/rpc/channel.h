// Opens channels for the client and the drafter, with keepalive, message limits and our user agent.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "common/rpc/keepalive.h"
#include "common/rpc/tls_files.h"

namespace outrider {

struct ChannelOptions {
  int max_message_bytes = 16 << 20;
  Keepalive keepalive;  // of connections with calls, however long these are silent
  // The authorities that the server's certificate must come from, and our own certificate, if any.
  // Null: plaintext.
  std::shared_ptr<const TlsMaterial> tls;
  // The name that the server's certificate must have; "": the authority's host.
  std::string tls_server_name;
  // The "host:port" that was dialled, if the address was resolved from it; "": the address.
  std::string authority;
  // For an address of several servers (dns:///name:port, ipv4:a:p,b:p): calls take turns among
  // those that serve `balanced_service`, and a call that was refused with UNAVAILABLE before its
  // first answer is retried at another. "": one server.
  std::string balanced_service;
};

// Never fails: the first call reports a bad address or an invalid server certificate (UNAVAILABLE).
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelOptions& options);

}  // namespace outrider
