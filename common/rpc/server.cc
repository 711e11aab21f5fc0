#include "common/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <utility>

#include "common/rpc/server_credentials.h"
#include "grpc/health/v1/health.pb.h"

namespace outrider {
namespace {

// A client that pings more often than this is told to stop (ENHANCE_YOUR_CALM).
constexpr int kMinPingIntervalMs = 5000;
constexpr int kKeepaliveTimeMs = 20000;
constexpr int kKeepaliveTimeoutMs = 10000;
// From accept to the end of the TLS handshake and the client's HTTP/2 settings: a connection that
// sends nothing must not take a file for longer.
constexpr int kHandshakeTimeoutMs = 10000;
// The names and values of a call's metadata, with 32 bytes for each.
constexpr int kMaxMetadataBytes = 8 << 10;

}  // namespace

Result<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& options,
                                                    const std::vector<grpc::Service*>& services) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // Links the descriptor of the health service, which reflection lists: without it clients that
  // know services by reflection alone cannot call it.
  grpc::health::v1::HealthCheckRequest::descriptor();
  grpc::ServerBuilder builder;
  int port = 0;
  std::shared_ptr<grpc::ServerCredentials> credentials = options.tls == nullptr
                                                             ? grpc::InsecureServerCredentials()
                                                             : MakeServerCredentials(options.tls);
  builder.AddListeningPort(options.listen, credentials, &port);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // Two servers must not share a port by accident: requests would go to either.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return Unavailable("cannot listen on " + options.listen +
                       ": the address is malformed or taken; choose another --listen");
  }
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(credentials), std::move(server), port));
}

RpcServer::RpcServer(std::shared_ptr<grpc::ServerCredentials> credentials,
                     std::unique_ptr<grpc::Server> server, int port)
    : credentials_(std::move(credentials)), server_(std::move(server)), port_(port) {}

RpcServer::~RpcServer() { Shutdown(Duration::zero()); }

void RpcServer::SetServing(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

void RpcServer::Shutdown(Duration grace) {
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::microseconds>(grace));
}

}  // namespace outrider
