// A request as it came over the wire, parsed by whoever asks for it, and the handlers of methods
// that take their requests so. The handlers that gRPC generates parse before the service learns of
// the call: whoever has no token makes that work too, and a malformed request is answered
// UNIMPLEMENTED without a word.
//
// Thread: a request belongs to its call.
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

// What a message may hold. Entries are its strings, messages and unknown fields, at any depth: two
// bytes of the wire can be two hundred in memory. Numbers are none: a byte of theirs becomes twelve
// at most.
struct MessageLimits {
  size_t bytes = 0;
  int entries = 0;
};

// Takes the bytes, whether they parse or not. kInvalidArgument: they are beyond a limit, which is
// looked at before anything is parsed, or not of this type; where protobuf tells, it names the
// field.
Status ParseRequest(grpc::ByteBuffer* bytes, const MessageLimits& limits,
                    google::protobuf::Message* request);

template <class Message>
class Incoming {
 public:
  // The request, or why it is none. To be called once for what has come: nothing of it stays here.
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

// In both: `admit(context)` is a Result of who calls, or why they may not. `serve` is called as the
// method's own would be, with the caller and the parsed request in place of the message that gRPC
// keeps until the call is over; an error before that is the call's.
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

// The index by which gRPC's Service knows a method of the service `service` in the file of
// `Message`.
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
