#include "client/verifier_client.h"

#include <grpcpp/client_context.h>

#include <optional>
#include <utility>

#include "common/base/log.h"
#include "common/rpc/channel.h"
#include "common/rpc/plaintext.h"
#include "common/rpc/service_names.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token_file.h"
#include "common/rpc/values_wire.h"
#include "outrider/v1/generation.grpc.pb.h"

namespace outrider {
namespace {

// For calls that answer from memory: if they take longer, the service hangs.
constexpr double kShortCallSeconds = 10;

// An address with a gRPC scheme may resolve to several verifiers.
bool HasScheme(const std::string& address) {
  return address.starts_with("dns:") || address.starts_with("ipv4:") ||
         address.starts_with("ipv6:");
}

Result<std::string> TokenOf(const ConnectionOptions& options) {
  if (!options.token_file.empty()) return ReadToken(options.token_file);
  if (options.token.empty()) return std::string();
  Result<std::vector<NamedToken>> tokens = ParseTokens(options.token);
  if (!tokens.ok()) return tokens.status().Annotate("OUTRIDER_TOKEN");
  return std::move(tokens->front().token);
}

}  // namespace

v1::GenerateRequest MakeRequest(const RequestOptions& options) {
  v1::GenerateRequest request;
  *request.mutable_sampling() = options.sampling;
  v1::StopConditions* stop = request.mutable_stop();
  if (options.max_tokens.has_value()) stop->set_max_tokens(*options.max_tokens);
  for (const std::string& text : options.stop_strings) stop->add_stop_strings(text);
  stop->set_ignore_eos(options.ignore_eos);
  if (options.seed.has_value()) request.set_seed(*options.seed);
  v1::SpeculationOptions* speculation = request.mutable_speculation();
  speculation->set_mode(options.speculation ? v1::SpeculationOptions::MODE_AUTO
                                            : v1::SpeculationOptions::MODE_OFF);
  if (options.rule.has_value()) speculation->set_rule(ToWire(*options.rule));
  speculation->set_draft_length(options.draft_length);
  speculation->set_paths(options.paths);
  speculation->mutable_tree()->Assign(options.tree.begin(), options.tree.end());
  if (options.stop.has_value()) ToWire(*options.stop, speculation->mutable_stop());
  return request;
}

Result<VerifierClient> VerifierClient::Create(const ConnectionOptions& options) {
  OUTRIDER_ASSIGN(std::string token, TokenOf(options));
  ChannelOptions channel{.tls_server_name = options.tls_server_name};
  if (options.balanced && HasScheme(options.verifier)) {
    channel.balanced_service = kGenerationService;
  }
  if (!options.tls.ca.empty()) {
    OUTRIDER_ASSIGN(const std::shared_ptr<TlsFiles> files, TlsFiles::Open(options.tls));
    channel.tls = files->Current();
  } else if (!token.empty() && !IsLoopback(options.verifier)) {
    Log(LogLevel::kWarning, "the token goes over the network in plaintext: give --tls-ca",
        {{"verifier", options.verifier}});
  }
  return VerifierClient(options.verifier, std::move(token), MakeChannel(options.verifier, channel));
}

VerifierClient::VerifierClient(std::string address, std::string token,
                               std::shared_ptr<grpc::Channel> channel)
    : address_(std::move(address)), token_(std::move(token)), channel_(std::move(channel)) {}

std::unique_ptr<grpc::ClientContext> VerifierClient::MakeContext(double timeout_seconds) const {
  auto context = std::make_unique<grpc::ClientContext>();
  if (!token_.empty()) context->AddMetadata("authorization", "Bearer " + token_);
  if (timeout_seconds > 0) {
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::microseconds(static_cast<int64_t>(timeout_seconds * 1e6)));
  }
  return context;
}

Result<v1::Finished> VerifierClient::Generate(
    const v1::GenerateRequest& request, double timeout_seconds,
    const std::function<void(const v1::TokenChunk&)>& on_chunk, const std::stop_token& stop,
    const std::string& traceparent) const {
  const auto context = MakeContext(timeout_seconds);
  if (!traceparent.empty()) context->AddMetadata("traceparent", traceparent);
  const std::stop_callback cancel(stop, [&context] { context->TryCancel(); });
  const auto stub = v1::Generation::NewStub(channel_);
  const auto reader = stub->Generate(context.get(), request);
  std::optional<v1::Finished> finished;
  int tokens = 0;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    if (response.has_chunk()) {
      tokens += response.chunk().token_ids_size();
      on_chunk(response.chunk());
    }
    if (response.has_finished()) finished = std::move(*response.mutable_finished());
  }
  if (const Status end = Explain(FromGrpc(reader->Finish())); !end.ok()) {
    if (tokens == 0) return end;
    return Status(end.code(),
                  end.message() + " (" + std::to_string(tokens) +
                      (tokens == 1 ? " token was received)" : " tokens were received)"));
  }
  if (!finished.has_value()) return Internal("the stream ended without its last message");
  return std::move(*finished);
}

Result<v1::GetStatusResponse> VerifierClient::GetStatus(const std::stop_token& stop) const {
  const auto context = MakeContext(kShortCallSeconds);
  const std::stop_callback cancel(stop, [&context] { context->TryCancel(); });
  v1::GetStatusResponse response;
  OUTRIDER_TRY(Explain(
      FromGrpc(v1::Generation::NewStub(channel_)->GetStatus(context.get(), {}, &response))));
  return response;
}

Result<std::string> VerifierClient::Detokenize(std::span<const uint32_t> token_ids) const {
  const auto context = MakeContext(kShortCallSeconds);
  v1::DetokenizeRequest request;
  request.mutable_token_ids()->Assign(token_ids.begin(), token_ids.end());
  request.set_skip_special(true);
  v1::DetokenizeResponse response;
  OUTRIDER_TRY(Explain(
      FromGrpc(v1::Generation::NewStub(channel_)->Detokenize(context.get(), request, &response))));
  return response.text();
}

Status VerifierClient::Explain(const Status& status) const {
  return status.code() == Code::kUnavailable ? status.Annotate(address_) : status;
}

}  // namespace outrider
