#include "common/rpc/incoming.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include "common/rpc/library_logs.h"

namespace outrider {

Status ParseRequest(grpc::ByteBuffer* bytes, google::protobuf::Message* request) {
  bool parsed = false;
  std::string said;
  if (bytes->Valid()) {
    const ProtobufWords words(&said);
    grpc::ProtoBufferReader reader(bytes);
    parsed = reader.status().ok() && request->ParseFromZeroCopyStream(&reader);
  }
  bytes->Clear();
  if (parsed) return Status();
  request->Clear();
  return InvalidArgument("the request is not a valid " + request->GetTypeName() + ": " +
                         (said.empty() ? "its bytes do not parse as protobuf" : said));
}

}  // namespace outrider
