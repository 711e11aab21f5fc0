// A gRPC server as both services set it up: health (grpc.health.v1: "" is alive, a service's full
// name is ready), reflection, keepalive and message limits.
//
// Thread: the thread that started it.
#pragma once

#include <grpcpp/impl/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/connection_intake.h"
#include "common/rpc/tls_files.h"

namespace grpc {
class Server;
class ServerCredentials;
namespace experimental {
class ExternalConnectionAcceptor;
}
}  // namespace grpc

namespace outrider {

struct RpcServerOptions {
  std::string listen;  // see Listener::Listen
  ConnectionLimits connections;
  int max_message_bytes = 16 << 20;
  // Our certificate. With authorities, clients must have a certificate from these. Null: plaintext.
  std::shared_ptr<TlsFiles> tls;
};

class RpcServer {
 public:
  // kUnavailable: the address cannot be bound. The services must outlive the server.
  static Result<std::unique_ptr<RpcServer>> Start(const RpcServerOptions& options,
                                                  const std::vector<grpc::Service*>& services);
  ~RpcServer();

  int port() const { return intake_->port(); }
  // Health of a service by its full name (service_names.h).
  void SetServing(const std::string& service, bool serving);
  // Cancels calls that still run after `grace`.
  void Shutdown(Duration grace);

 private:
  RpcServer() = default;

  std::shared_ptr<grpc::ServerCredentials> credentials_;  // outlive the server
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionIntake> intake_;
};

}  // namespace outrider
