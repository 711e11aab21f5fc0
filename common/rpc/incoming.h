// Messages as raw bytes, whose reader parses them itself, and the handlers of methods with such
// requests. gRPC's generated handlers parse before the service sees the call, so callers without a
// token could cause that work, and malformed requests would be answered UNIMPLEMENTED without an
// explanation. A client that reads such messages can limit them likewise.
//
// Thread: a message belongs to its call.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/status_map.h"

namespace outrider {

// Limits of a message. Entries are its strings, messages and unknown fields, at any depth: two
// bytes on the wire can become two hundred in memory. Numbers do not count, as a byte of these
// becomes at most twelve.
struct MessageLimits {
  size_t bytes = 0;
  int entries = 0;
};

// Consumes the bytes, whether they parse or not. kInvalidArgument: they exceed a limit, which is
// checked before parsing, or are not of this type; the message names the field if protobuf reports
// it.
Status ParseRequest(grpc::ByteBuffer* bytes, const MessageLimits& limits,
                    google::protobuf::Message* request);

template <class Message>
class Incoming {
 public:
  // Parses the request, or returns why it is invalid. Call once: it keeps nothing.
  Result<Message> Parse(const MessageLimits& limits) const {
    Message message;
    OUTRIDER_TRY(ParseRequest(&bytes_, limits, &message));
    return message;
  }

 private:
  friend class grpc::SerializationTraits<Incoming<Message>, void>;

  mutable grpc::ByteBuffer bytes_;  // gRPC hands requests out as const
};

// A call that is over before it began.
template <class Reactor>
class RefusedCall final : public Reactor {
 public:
  explicit RefusedCall(const Status& why) { this->Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

// In both, `admit(context)` returns a Result with the caller, or why it may not call. `serve` is
// called like the service's method, with the caller and the parsed request instead of the message,
// which gRPC would keep until the call is over. An earlier error becomes the call's status.
template <class Request, class Response, class Admit, class Serve>
grpc::internal::MethodHandler* UnaryHandler(Admit admit, const MessageLimits& limits, Serve serve) {
  return new grpc::internal::CallbackUnaryHandler<Incoming<Request>, Response>(
      [=](grpc::CallbackServerContext* context, const Incoming<Request>* incoming,
          Response* response) -> grpc::ServerUnaryReactor* {
        using Refused = RefusedCall<grpc::ServerUnaryReactor>;
        auto caller = admit(*context);
        if (!caller.ok()) return new Refused(caller.status());
        Result<Request> request = incoming->Parse(limits);
        if (!request.ok()) return new Refused(request.status());
        return serve(context, std::move(caller).value(), std::move(request).value(), response);
      });
}

template <class Request, class Response, class Admit, class Serve>
grpc::internal::MethodHandler* ServerStreamHandler(Admit admit, const MessageLimits& limits,
                                                   Serve serve) {
  return new grpc::internal::CallbackServerStreamingHandler<Incoming<Request>, Response>(
      [=](grpc::CallbackServerContext* context,
          const Incoming<Request>* incoming) -> grpc::ServerWriteReactor<Response>* {
        using Refused = RefusedCall<grpc::ServerWriteReactor<Response>>;
        auto caller = admit(*context);
        if (!caller.ok()) return new Refused(caller.status());
        Result<Request> request = incoming->Parse(limits);
        if (!request.ok()) return new Refused(request.status());
        return serve(context, std::move(caller).value(), std::move(request).value());
      });
}

// The index of a method in gRPC's Service, for the service `service` in the file of `Message`.
template <class Message>
int MethodIndex(const std::string& service, const std::string& method) {
  return Message::descriptor()
      ->file()
      ->FindServiceByName(service)
      ->FindMethodByName(method)
      ->index();
}

}  // namespace outrider

namespace grpc {

template <class Message>
class SerializationTraits<outrider::Incoming<Message>, void> {
 public:
  static Status Deserialize(ByteBuffer* bytes, outrider::Incoming<Message>* to) {
    return SerializationTraits<ByteBuffer>::Deserialize(bytes, &to->bytes_);
  }
};

}  // namespace grpc
