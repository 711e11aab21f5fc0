// Streams a text over gRPC and says what the drafts brought. Only needs the contract.
//
//   example_generate [HOST:PORT [PROMPT]]
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <string>

#include "outrider/v1/generation.grpc.pb.h"

namespace v1 = outrider::v1;

int main(int argc, char** argv) {
  const std::string address = argc > 1 ? argv[1] : "127.0.0.1:7300";
  v1::GenerateRequest request;
  request.set_text(argc > 2 ? argv[2] : "Once upon a time");
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(64);

  const auto stub =
      v1::Generation::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;  // context.TryCancel() from any thread ends the generation
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(10));
  const auto reader = stub->Generate(&context, request);

  v1::Finished finished;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    if (response.has_chunk()) std::cout << response.chunk().text() << std::flush;
    if (response.has_finished()) finished = response.finished();
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) {
    std::cerr << "error " << status.error_code() << ": " << status.error_message() << '\n';
    return 1;
  }
  std::cout << '\n';
  const v1::SpeculationStats& stats = finished.speculation();
  std::cerr << '[' << finished.completion_tokens() << " tokens in " << stats.rounds() << " rounds; "
            << stats.accepted_tokens() << " of " << stats.drafted_tokens()
            << " draft tokens accepted]\n";
  return 0;
}
