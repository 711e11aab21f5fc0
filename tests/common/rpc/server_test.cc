// The server as seen by probes and tools. Health and reflection are called with hand-made bytes,
// because no package has their generated code.
#include "common/rpc/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <string>

#include "common/rpc/channel.h"
#include "outrider/v1/generation.grpc.pb.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

struct RawAnswer {
  grpc::Status status;
  std::string message;  // the bytes of the first one
};

// Sends one message and receives one, for any method.
RawAnswer CallRaw(const std::string& address, const std::string& method,
                  const std::string& request) {
  // A sender without our limit.
  grpc::GenericStub stub(MakeChannel(address, {.max_message_bytes = 64 << 20}));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto wait = [&] { queue.Next(&tag, &ok); };
  call->StartCall(nullptr);
  wait();
  const grpc::Slice slice(request);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
  wait();
  RawAnswer answer;
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  wait();
  if (ok) {
    grpc::Slice bytes;
    EXPECT_TRUE(reply.DumpToSingleSlice(&bytes).ok());
    answer.message.assign(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  }
  call->Finish(&answer.status, nullptr);
  wait();
  return answer;
}

// HealthCheckRequest{service = 1} and HealthCheckResponse{status = 1} of grpc.health.v1.
RawAnswer CheckHealth(const std::string& address, const std::string& service) {
  std::string request = "\x0a";
  request += static_cast<char>(service.size());
  return CallRaw(address, "/grpc.health.v1.Health/Check", request + service);
}
const std::string kHealthServing = "\x08\x01";
const std::string kHealthNotServing = "\x08\x02";

class RpcServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = RpcServer::Start({.listen = "127.0.0.1:0"}, {&service_});
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
    address_ = "127.0.0.1:" + std::to_string(server_->port());
  }

  v1::Generation::Service service_;
  std::unique_ptr<RpcServer> server_;
  std::string address_;
};

TEST_F(RpcServerTest, IsReadyOnceSet) {
  EXPECT_EQ(CheckHealth(address_, "").message, kHealthServing);
  EXPECT_EQ(CheckHealth(address_, "outrider.v1.Generation").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  server_->SetServing("outrider.v1.Generation", true);
  EXPECT_EQ(CheckHealth(address_, "outrider.v1.Generation").message, kHealthServing);
  server_->SetServing("outrider.v1.Generation", false);
  EXPECT_EQ(CheckHealth(address_, "outrider.v1.Generation").message, kHealthNotServing);
  EXPECT_EQ(CheckHealth(address_, "").message, kHealthServing);
}

TEST_F(RpcServerTest, ListsItsServicesByReflection) {
  const std::string list_services = {0x3a, 0x01, '*'};  // field 7 of ServerReflectionRequest
  const RawAnswer answer = CallRaw(
      address_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", list_services);
  EXPECT_THAT(answer.message, HasSubstr("outrider.v1.Generation"));
  EXPECT_THAT(answer.message, HasSubstr("grpc.health.v1.Health"));
}

TEST_F(RpcServerTest, TakenPortNamesItsAddress) {
  v1::Generation::Service other;
  const auto second = RpcServer::Start({.listen = address_}, {&other});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr(address_));
}

TEST_F(RpcServerTest, RefusesMessageAboveLimit) {
  v1::GenerateRequest request;
  request.set_text(std::string(17 << 20, 'x'));
  const RawAnswer answer =
      CallRaw(address_, "/outrider.v1.Generation/GetModel", request.SerializeAsString());
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(RpcServer, MalformedAddressIsError) {
  v1::Generation::Service service;
  EXPECT_EQ(RpcServer::Start({.listen = "nowhere at all"}, {&service}).status().code(),
            Code::kUnavailable);
}

// A call that only ends when it is cancelled.
class Endless final : public v1::Generation::Service {
 public:
  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest*,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    while (writer->Write(v1::GenerateResponse())) {
    }
    return grpc::Status::CANCELLED;
  }
};

TEST(RpcServer, ShutdownCancelsCallsAfterGrace) {
  Endless service;
  auto server = RpcServer::Start({.listen = "127.0.0.1:0"}, {&service});
  ASSERT_TRUE(server.ok());
  const auto stub =
      v1::Generation::NewStub(MakeChannel("127.0.0.1:" + std::to_string((*server)->port()), {}));
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, v1::GenerateRequest());
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  (*server)->Shutdown(Duration::zero());
  while (reader->Read(&response)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

}  // namespace
}  // namespace outrider
