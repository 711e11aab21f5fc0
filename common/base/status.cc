#include "common/base/status.h"

namespace outrider {

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "OK";
    case Code::kCancelled: return "CANCELLED";
    case Code::kUnknown: return "UNKNOWN";
    case Code::kInvalidArgument: return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded: return "DEADLINE_EXCEEDED";
    case Code::kNotFound: return "NOT_FOUND";
    case Code::kPermissionDenied: return "PERMISSION_DENIED";
    case Code::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition: return "FAILED_PRECONDITION";
    case Code::kAborted: return "ABORTED";
    case Code::kOutOfRange: return "OUT_OF_RANGE";
    case Code::kUnimplemented: return "UNIMPLEMENTED";
    case Code::kInternal: return "INTERNAL";
    case Code::kUnavailable: return "UNAVAILABLE";
    case Code::kDataLoss: return "DATA_LOSS";
    case Code::kUnauthenticated: return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(CodeName(code_)) + ": " + message_;
}

Status Status::Annotate(const std::string& context) const {
  if (ok()) return *this;
  return Status(code_, context + ": " + message_);
}

Status InvalidArgument(std::string message) {
  return Status(Code::kInvalidArgument, std::move(message));
}
Status NotFound(std::string message) { return Status(Code::kNotFound, std::move(message)); }
Status PermissionDenied(std::string message) {
  return Status(Code::kPermissionDenied, std::move(message));
}
Status ResourceExhausted(std::string message) {
  return Status(Code::kResourceExhausted, std::move(message));
}
Status FailedPrecondition(std::string message) {
  return Status(Code::kFailedPrecondition, std::move(message));
}
Status Unimplemented(std::string message) {
  return Status(Code::kUnimplemented, std::move(message));
}
Status Internal(std::string message) { return Status(Code::kInternal, std::move(message)); }
Status Unavailable(std::string message) { return Status(Code::kUnavailable, std::move(message)); }
Status DataLoss(std::string message) { return Status(Code::kDataLoss, std::move(message)); }
Status Unauthenticated(std::string message) {
  return Status(Code::kUnauthenticated, std::move(message));
}

Status CheckAtMost(const std::string& field, int64_t count, int64_t limit, const char* unit) {
  if (count <= limit) return Status();
  return InvalidArgument(field + ": " + std::to_string(count) + " " + unit + ", at most " +
                         std::to_string(limit));
}

}  // namespace outrider
