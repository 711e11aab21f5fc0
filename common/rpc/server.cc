#include "common/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <utility>

#include "common/rpc/keepalive.h"
#include "common/rpc/server_credentials.h"
#include "grpc/health/v1/health.pb.h"

namespace outrider {
namespace {

// A client that pings more often than this is told to stop (ENHANCE_YOUR_CALM).
constexpr int kMinPingIntervalMs = 5000;
// From accept to the end of the TLS handshake and the client's HTTP/2 settings: a connection that
// sends nothing must not hold a descriptor for longer.
constexpr int kHandshakeTimeoutMs = 10000;
// Size of the names and values of a call's metadata, plus 32 bytes for each.
constexpr int kMaxMetadataBytes = 8 << 10;
// Memory of connections, calls and partial messages of the whole server.
constexpr size_t kMaxBytes = size_t{512} << 20;
// For synchronous services: reflection holds a thread for every open stream.
constexpr int kMaxThreads = 32;

}  // namespace

Result<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& options,
                                                    const std::vector<grpc::Service*>& services) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // Links the descriptor of the health service, which reflection lists. Without it, clients that
  // rely on reflection cannot call it.
  grpc::health::v1::HealthCheckRequest::descriptor();
  std::unique_ptr<RpcServer> server(new RpcServer);
  server->credentials_ = options.tls == nullptr ? grpc::InsecureServerCredentials()
                                                : MakeServerCredentials(options.tls);
  grpc::ServerBuilder builder;
  server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      server->credentials_);
  // gRPC decompresses a message before it checks its size, and before any token is checked.
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  grpc::ResourceQuota quota(options.listen);
  quota.Resize(kMaxBytes);
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  const Keepalive keepalive;
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive.time_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive.timeout_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // as in channel.cc
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return Internal("gRPC does not start its server");
  const auto take = [acceptor = server->acceptor_.get()](int descriptor) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = descriptor;
    acceptor->HandleNewConnection(&connection);
  };
  OUTRIDER_ASSIGN(server->intake_,
                  ConnectionIntake::Start(options.listen, options.connections, take));
  return server;
}

RpcServer::~RpcServer() { Shutdown(Duration::zero()); }

void RpcServer::SetServing(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

void RpcServer::Shutdown(Duration grace) {
  intake_.reset();
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::microseconds>(grace));
}

}  // namespace outrider
