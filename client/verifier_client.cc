#include "client/verifier_client.h"

#include <grpcpp/client_context.h>

#include <optional>
#include <utility>

#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/rpc/wire.h"
#include "outrider/v1/generation.grpc.pb.h"

namespace outrider {
namespace {

// For calls that answer from memory: longer means that the service hangs.
constexpr double kShortCallSeconds = 10;

void SetTimeout(grpc::ClientContext& context, double seconds) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6)));
}

}  // namespace

v1::GenerateRequest MakeRequest(const RequestOptions& options) {
  v1::GenerateRequest request;
  ToWire(options.sampling, request.mutable_sampling());
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
  return request;
}

VerifierClient::VerifierClient(const std::string& address)
    : address_(address), channel_(MakeChannel(address, ChannelOptions{})) {}

Result<v1::Finished> VerifierClient::Generate(
    const v1::GenerateRequest& request, double timeout_seconds,
    const std::function<void(const v1::TokenChunk&)>& on_chunk) const {
  grpc::ClientContext context;
  if (timeout_seconds > 0) SetTimeout(context, timeout_seconds);
  const auto stub = v1::Generation::NewStub(channel_);
  const auto reader = stub->Generate(&context, request);
  std::optional<v1::Finished> finished;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    if (response.has_chunk()) on_chunk(response.chunk());
    if (response.has_finished()) finished = std::move(*response.mutable_finished());
  }
  OUTRIDER_TRY(Explain(FromGrpc(reader->Finish())));
  if (!finished.has_value()) return Internal("the stream ended without its last message");
  return std::move(*finished);
}

Result<v1::GetStatusResponse> VerifierClient::GetStatus() const {
  grpc::ClientContext context;
  SetTimeout(context, kShortCallSeconds);
  v1::GetStatusResponse response;
  OUTRIDER_TRY(
      Explain(FromGrpc(v1::Generation::NewStub(channel_)->GetStatus(&context, {}, &response))));
  return response;
}

Result<std::string> VerifierClient::Detokenize(std::span<const uint32_t> token_ids) const {
  grpc::ClientContext context;
  SetTimeout(context, kShortCallSeconds);
  v1::DetokenizeRequest request;
  request.mutable_token_ids()->Assign(token_ids.begin(), token_ids.end());
  request.set_skip_special(true);
  v1::DetokenizeResponse response;
  OUTRIDER_TRY(Explain(
      FromGrpc(v1::Generation::NewStub(channel_)->Detokenize(&context, request, &response))));
  return response.text();
}

Status VerifierClient::Explain(const Status& status) const {
  return status.code() == Code::kUnavailable ? status.Annotate(address_) : status;
}

}  // namespace outrider
