#include "common/rpc/incoming.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "common/rpc/library_logs.h"

namespace outrider {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormat;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Counts what protobuf would allocate individually: the strings, messages and unknown fields of a
// message, at any depth (an unknown group counts twice). It reads the bytes in the parser's order
// and stops at malformed bytes, as the parser does, or once the limit is exceeded.
class EntryCounter {
 public:
  EntryCounter(CodedInputStream* in, int max_entries) : in_(in), max_entries_(max_entries) {}

  bool passed() const { return entries_ > max_entries_; }

  // Returns false if it stopped. The recursion is as deep as the type's definition; none of our
  // types contains itself.
  bool Message(const Descriptor& type) {
    int unknown_groups = 0;  // that are open
    while (const uint32_t tag = in_->ReadTag()) {
      const auto wire = WireFormatLite::GetTagWireType(tag);
      const FieldDescriptor* const field =
          unknown_groups > 0 ? nullptr
                             : type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      if (wire == WireFormatLite::WIRETYPE_START_GROUP) ++unknown_groups;
      if (wire == WireFormatLite::WIRETYPE_END_GROUP) --unknown_groups;
      if (!IsNumber(field, wire)) ++entries_;
      if (passed() || unknown_groups < 0 || !Content(field, wire)) return false;
    }
    return in_->ConsumedEntireMessage();
  }

 private:
  // A number, or a packed array of numbers.
  static bool IsNumber(const FieldDescriptor* field, WireFormatLite::WireType wire) {
    if (field == nullptr) return false;
    if (wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) return field->is_packable();
    return wire == WireFormat::WireTypeForFieldType(field->type());
  }

  bool Content(const FieldDescriptor* field, WireFormatLite::WireType wire) {
    uint64_t number = 0;
    uint32_t length = 0;
    switch (wire) {
      case WireFormatLite::WIRETYPE_VARINT: return in_->ReadVarint64(&number);
      case WireFormatLite::WIRETYPE_FIXED64: return in_->Skip(sizeof(uint64_t));
      case WireFormatLite::WIRETYPE_FIXED32: return in_->Skip(sizeof(uint32_t));
      case WireFormatLite::WIRETYPE_START_GROUP:
      case WireFormatLite::WIRETYPE_END_GROUP: return true;
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: break;
      default: return false;
    }
    if (!in_->ReadVarint32(&length)) return false;
    if (field == nullptr || field->message_type() == nullptr) {
      return in_->Skip(static_cast<int>(length));
    }
    const CodedInputStream::Limit outer = in_->PushLimit(static_cast<int>(length));
    const bool whole = Message(*field->message_type());
    in_->PopLimit(outer);
    return whole;
  }

  CodedInputStream* const in_;
  const int max_entries_;
  int entries_ = 0;
};

// kInvalidArgument: more than `max_entries` entries. The parser reports malformed bytes.
Status CheckEntries(grpc::ByteBuffer* bytes, int max_entries, const Descriptor& type) {
  grpc::ProtoBufferReader reader(bytes);
  if (!reader.status().ok()) return Status();
  CodedInputStream in(&reader);
  EntryCounter counter(&in, max_entries);
  (void)counter.Message(type);
  if (!counter.passed()) return Status();
  return InvalidArgument("the " + type.full_name() + " holds more than " +
                         std::to_string(max_entries) +
                         " strings, messages and unknown fields; send fewer");
}

Status Parse(grpc::ByteBuffer* bytes, google::protobuf::Message* request) {
  std::string said;
  const ProtobufWords words(&said);
  grpc::ProtoBufferReader reader(bytes);
  if (reader.status().ok() && request->ParseFromZeroCopyStream(&reader)) return Status();
  return InvalidArgument("the request is not a valid " + request->GetTypeName() + ": " +
                         (said.empty() ? "its bytes do not parse as protobuf" : said));
}

}  // namespace

Status ParseRequest(grpc::ByteBuffer* bytes, const MessageLimits& limits,
                    google::protobuf::Message* request) {
  if (!bytes->Valid()) return InvalidArgument("the request is missing");
  Status status = CheckAtMost(request->GetTypeName(), static_cast<int64_t>(bytes->Length()),
                              static_cast<int64_t>(limits.bytes), "bytes");
  if (status.ok()) status = CheckEntries(bytes, limits.entries, *request->GetDescriptor());
  if (status.ok()) status = Parse(bytes, request);
  bytes->Clear();
  return status;
}

}  // namespace outrider
