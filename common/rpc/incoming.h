// A request as it came over the wire, parsed by whoever asks for it, and the handlers of methods
// that take their requests so. The handlers that gRPC generates parse before the service hears of
// the call: whoever has no token makes that work too, and a malformed request is answered
// UNIMPLEMENTED without a word.
//
// Thread: a request belongs to its call.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/status_map.h"

namespace outrider {

// Takes the bytes, whether they parse or not. kInvalidArgument says of which type they are not and,
// where protobuf tells, which field is wrong.
Status ParseRequest(grpc::ByteBuffer* bytes, google::protobuf::Message* request);

template <class Message>
class Incoming {
 public:
  // The request, or why it is none. To be called once for what has come; valid until Clear.
  Result<const Message*> Parse() const {
    OUTRIDER_TRY(ParseRequest(&bytes_, &message_));
    return &message_;
  }
  void Clear() {
    bytes_.Clear();
    message_.Clear();
  }

 private:
  friend class grpc::SerializationTraits<Incoming<Message>, void>;

  // gRPC hands requests out as const.
  mutable grpc::ByteBuffer bytes_;
  mutable Message message_;
};

// A call that is over before it began.
template <class Reactor>
class RefusedCall final : public Reactor {
 public:
  explicit RefusedCall(const Status& why) { this->Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

// Whether the caller may call.
using AdmitCall = std::function<Status(const grpc::CallbackServerContext&)>;

// `serve` is called as the method's own would be, once the caller is admitted and the request is
// parsed; its error is the call's otherwise.
template <class Request, class Response, class Serve>
grpc::internal::MethodHandler* UnaryHandler(AdmitCall admit, Serve serve) {
  return new grpc::internal::CallbackUnaryHandler<Incoming<Request>, Response>(
      [admit = std::move(admit), serve = std::move(serve)](
          grpc::CallbackServerContext* context, const Incoming<Request>* incoming,
          Response* response) -> grpc::ServerUnaryReactor* {
        using Refused = RefusedCall<grpc::ServerUnaryReactor>;
        if (const Status status = admit(*context); !status.ok()) return new Refused(status);
        const Result<const Request*> request = incoming->Parse();
        if (!request.ok()) return new Refused(request.status());
        return serve(context, *request, response);
      });
}

template <class Request, class Response, class Serve>
grpc::internal::MethodHandler* ServerStreamHandler(AdmitCall admit, Serve serve) {
  return new grpc::internal::CallbackServerStreamingHandler<Incoming<Request>, Response>(
      [admit = std::move(admit), serve = std::move(serve)](
          grpc::CallbackServerContext* context,
          const Incoming<Request>* incoming) -> grpc::ServerWriteReactor<Response>* {
        using Refused = RefusedCall<grpc::ServerWriteReactor<Response>>;
        if (const Status status = admit(*context); !status.ok()) return new Refused(status);
        const Result<const Request*> request = incoming->Parse();
        if (!request.ok()) return new Refused(request.status());
        return serve(context, *request);
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
