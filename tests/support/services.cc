#include "tests/support/services.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "tests/support/metrics_reader.h"
#include "tests/support/time_limit.h"

namespace outrider::testing {
namespace {

// The number of a key in a log line, as text (key=value) or JSON ("key":value); 0 if it is not
// there.
int NumberIn(const std::string& line, const std::string& key) {
  for (const std::string& before : {" " + key + "=", "\"" + key + "\":"}) {
    const size_t pos = line.find(before);
    if (pos != std::string::npos) return atoi(line.c_str() + pos + before.size());
  }
  return 0;
}

// With OUTRIDER_TEST_DEVICE (cuda:0) the services run there: in f32, because expectations are
// computed in f32 on the host, and with a cache of a fixed size, because the first service would
// take all memory.
void AddDevice(const std::vector<std::string>& flags, std::vector<std::string>* argv) {
  const char* device = std::getenv("OUTRIDER_TEST_DEVICE");
  if (device == nullptr) return;
  const auto add = [&](const std::string& flag, const std::string& value) {
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) return;
    argv->insert(argv->end(), {flag, value});
  };
  add("--device", device);
  add("--weights", "f32");
  add("--kv-tokens", "65536");
}

}  // namespace

VerifierProcess::~VerifierProcess() {
  if (process != nullptr && metrics_port != 0 && process->running()) {
    ExpectNoPageLeaked(metrics_port);
  }
}

void ExpectNoPageLeaked(int metrics_port) {
  std::map<std::string, double> metrics;
  const auto all_are_free = [&] {  // also of cancelled requests, which end soon
    metrics = ReadMetrics(metrics_port);
    const double requests =
        metrics["outrider_num_requests_running"] + metrics["outrider_num_requests_waiting"];
    return metrics.contains("outrider_kv_pages_used") && requests == 0 &&
           metrics["outrider_kv_pages_used"] == metrics["outrider_prefix_cache_pages"];
  };
  EXPECT_TRUE(Await(all_are_free))
      << "KV pages leaked: " << metrics["outrider_kv_pages_used"] << " in use, "
      << metrics["outrider_prefix_cache_pages"] << " by the prefix cache, with "
      << metrics["outrider_num_requests_running"] << " requests running and "
      << metrics["outrider_num_requests_waiting"] << " waiting";
}

std::string ProgramPath(const std::string& name) {
  return std::string(OUTRIDER_BINARY_DIR) + "/bin/" + name;
}

std::string SourcePath(const std::string& name) {
  return std::string(OUTRIDER_SOURCE_DIR) + "/" + name;
}

std::string SmallPair(const std::string& name) {
  return std::string(OUTRIDER_BINARY_DIR) + "/tests/small_pair/" + name;
}

VerifierProcess StartVerifier(const std::string& model, const std::string& log_path,
                              const std::vector<std::string>& flags, const std::string& listen) {
  std::vector<std::string> argv = {ProgramPath("outrider-verifier"),
                                   "--model",
                                   model,
                                   "--listen",
                                   listen,
                                   "--metrics",
                                   "127.0.0.1:0"};
  // Tests know the drafts' shape unless they ask for a policy.
  if (std::find(flags.begin(), flags.end(), "--policy") == flags.end()) {
    argv.insert(argv.end(), {"--policy", "fixed"});
  }
  AddDevice(flags, &argv);
  argv.insert(argv.end(), flags.begin(), flags.end());
  VerifierProcess verifier;
  verifier.process = Process::Start(argv, log_path);
  const bool json = std::find(flags.begin(), flags.end(), "--log-json") != flags.end();
  const std::string line = verifier.process->AwaitLine(json ? "\"serving\"" : " serving ");
  verifier.port = NumberIn(line, "port");
  verifier.metrics_port = NumberIn(line, "metrics_port");
  verifier.http_port = NumberIn(line, "http_port");
  if (verifier.port == 0) ADD_FAILURE() << "verifier: " << verifier.process->Log();
  return verifier;
}

std::unique_ptr<Process> StartDrafter(const std::string& model, const std::string& verifier,
                                      const std::string& log_path,
                                      const std::vector<std::string>& flags) {
  std::vector<std::string> argv = {ProgramPath("outrider-drafter"),
                                   "--model",
                                   model,
                                   "--verifier",
                                   verifier,
                                   "--metrics",
                                   "",
                                   "--listen",
                                   ""};
  AddDevice(flags, &argv);
  argv.insert(argv.end(), flags.begin(), flags.end());
  return Process::Start(argv, log_path);
}

v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.mutable_stop()->set_max_tokens(max_tokens);
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

v1::GenerateRequest StoryRequest(uint32_t max_tokens) {
  return TextRequest("Once upon a time, there was a little", max_tokens);
}

grpc::Status CallByBytes(const std::string& address, const std::string& method,
                         const std::string& request,
                         const std::map<std::string, std::string>& metadata) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  context.set_deadline(std::chrono::system_clock::now() + kTimeLimit);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const auto pending = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  pending->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  pending->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

TestClient::TestClient(const std::string& address, const ChannelOptions& options, std::string token)
    : token_(std::move(token)), stub_(v1::Generation::NewStub(MakeChannel(address, options))) {}

void TestClient::AddToken(grpc::ClientContext& context) const {
  if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
}

TestClient::Outcome TestClient::Generate(const v1::GenerateRequest& request) {
  Outcome outcome;
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  AddToken(context);
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_finished()) {
      outcome.finished = response.finished();
      continue;
    }
    const v1::TokenChunk& chunk = response.chunk();
    outcome.text += chunk.text();
    outcome.tokens.insert(outcome.tokens.end(), chunk.token_ids().begin(), chunk.token_ids().end());
    outcome.accepted_per_chunk.push_back(chunk.accepted());
    outcome.drafted_per_chunk.push_back(chunk.drafted());
  }
  outcome.status = reader->Finish();
  return outcome;
}

v1::GetStatusResponse TestClient::Status() {
  grpc::ClientContext context;
  AddToken(context);
  v1::GetStatusResponse response;
  const grpc::Status status = stub_->GetStatus(&context, {}, &response);
  if (!status.ok()) ADD_FAILURE() << "GetStatus: " << status.error_message();
  return response;
}

bool TestClient::AwaitDrafters(int count) {
  return Await([&] { return Status().drafters_size() == count; });
}

}  // namespace outrider::testing
