#include "common/rpc/channel.h"

#include <grpcpp/grpcpp.h>

#include <string>

#include "common/base/version.h"

namespace outrider {
namespace {

// Of gRPC's attempts to connect again.
constexpr int kInitialBackoffMs = 100;
constexpr int kMaxBackoffMs = 1000;
// gRPC's minimum between two attempts is how long one attempt may take: several round trips of a
// handshake, on a busy machine. Refused connections still fail at once.
constexpr int kConnectTimeoutMs = 5000;

// docs/routing.md shows the same for other clients.
std::string BalancingConfig(const std::string& service) {
  return R"({"loadBalancingConfig": [{"round_robin": {}}],
             "healthCheckConfig": {"serviceName": ")" +
         service +
         R"("},
             "methodConfig": [{"name": [{"service": ")" +
         service +
         R"("}],
                               "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s",
                                               "maxBackoff": "2s", "backoffMultiplier": 2,
                                               "retryableStatusCodes": ["UNAVAILABLE"]}}]})";
}

std::shared_ptr<grpc::ChannelCredentials> Credentials(const ChannelOptions& options) {
  if (options.tls == nullptr) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = options.tls->ca,
                               .pem_private_key = options.tls->key,
                               .pem_cert_chain = options.tls->cert});
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelOptions& options) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(options.max_message_bytes);
  args.SetMaxSendMessageSize(options.max_message_bytes);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, options.keepalive.time_ms);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.keepalive.timeout_ms);
  // By default there are two pings until we send something: a drafter without sessions would not
  // notice that its verifier has vanished, nor a client whose request waits for its turn.
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kInitialBackoffMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxBackoffMs);
  args.SetUserAgentPrefix(std::string("outrider/") + kVersion);
  if (!options.authority.empty()) args.SetString(GRPC_ARG_DEFAULT_AUTHORITY, options.authority);
  if (!options.balanced_service.empty()) {
    args.SetServiceConfigJSON(BalancingConfig(options.balanced_service));
  }
  if (!options.tls_server_name.empty()) args.SetSslTargetNameOverride(options.tls_server_name);
  return grpc::CreateCustomChannel(address, Credentials(options), args);
}

}  // namespace outrider
