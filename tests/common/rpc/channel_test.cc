#include "common/rpc/channel.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "outrider/v1/generation.grpc.pb.h"
#include "tests/support/delay_proxy.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using testing::DelayProxy;

// Answers once and is silent from then on, as while a request waits for its turn.
class Silent final : public v1::Generation::Service {
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest*,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    writer->Write({});
    while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return grpc::Status::OK;
  }
};

// By itself gRPC stops to ask after two pings without data from its side, and a client of a stream
// sends none.
TEST(Channel, LongSilenceIsWatched) {
  Silent service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto proxy = DelayProxy::Start({.to = "127.0.0.1:" + std::to_string(port)}).value();
  const auto stub = v1::Generation::NewStub(
      MakeChannel(proxy->address(), {.keepalive = {.time_ms = 200, .timeout_ms = 200}}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + testing::kTimeLimit);
  const auto reader = stub->Generate(&context, {});
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  std::this_thread::sleep_for(std::chrono::seconds(2));  // more than two pings
  proxy->Partition();
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  proxy->Cut();  // the server learns it so
  server->Shutdown();
}

}  // namespace
}  // namespace outrider
