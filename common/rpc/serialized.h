// Messages as bytes, for streams that write bytes: what waits is as large as it looks, and several
// streams can share it.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include "common/base/check.h"

namespace outrider {

template <class Message>
grpc::ByteBuffer Serialized(const Message& message) {
  grpc::ByteBuffer bytes;
  bool is_owned = false;
  OUTRIDER_CHECK(grpc::SerializationTraits<Message>::Serialize(message, &bytes, &is_owned).ok());
  return bytes;
}

}  // namespace outrider
