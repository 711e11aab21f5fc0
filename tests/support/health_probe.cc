#include "tests/support/health_probe.h"

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <future>
#include <utility>

namespace outrider::testing {

// Debian does not package that proto; on the wire its messages are a string and a number in field
// 1, as in these.
Health Probe(const std::string& address, const std::string& service,
             std::chrono::milliseconds timeout) {
  using Stub =
      grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::Int32Value>;
  // Uses a connection of its own: a cached one would answer for a process that has exited.
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  Stub stub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), own));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  google::protobuf::StringValue request;
  request.set_value(service);
  google::protobuf::Int32Value response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  const grpc::Status status = done.get_future().get();
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return Health::kUnknownService;
  if (!status.ok()) return Health::kUnreachable;
  return response.value() == 1 ? Health::kServing : Health::kNotServing;
}

}  // namespace outrider::testing
