#include "common/rpc/status_map.h"

namespace outrider {
namespace {

// Code carries gRPC's numbers, so the map is a cast.
static_assert(static_cast<int>(Code::kOk) == grpc::StatusCode::OK);
static_assert(static_cast<int>(Code::kCancelled) == grpc::StatusCode::CANCELLED);
static_assert(static_cast<int>(Code::kUnknown) == grpc::StatusCode::UNKNOWN);
static_assert(static_cast<int>(Code::kInvalidArgument) == grpc::StatusCode::INVALID_ARGUMENT);
static_assert(static_cast<int>(Code::kDeadlineExceeded) == grpc::StatusCode::DEADLINE_EXCEEDED);
static_assert(static_cast<int>(Code::kNotFound) == grpc::StatusCode::NOT_FOUND);
static_assert(static_cast<int>(Code::kPermissionDenied) == grpc::StatusCode::PERMISSION_DENIED);
static_assert(static_cast<int>(Code::kResourceExhausted) == grpc::StatusCode::RESOURCE_EXHAUSTED);
static_assert(static_cast<int>(Code::kFailedPrecondition) == grpc::StatusCode::FAILED_PRECONDITION);
static_assert(static_cast<int>(Code::kAborted) == grpc::StatusCode::ABORTED);
static_assert(static_cast<int>(Code::kOutOfRange) == grpc::StatusCode::OUT_OF_RANGE);
static_assert(static_cast<int>(Code::kUnimplemented) == grpc::StatusCode::UNIMPLEMENTED);
static_assert(static_cast<int>(Code::kInternal) == grpc::StatusCode::INTERNAL);
static_assert(static_cast<int>(Code::kUnavailable) == grpc::StatusCode::UNAVAILABLE);
static_assert(static_cast<int>(Code::kDataLoss) == grpc::StatusCode::DATA_LOSS);
static_assert(static_cast<int>(Code::kUnauthenticated) == grpc::StatusCode::UNAUTHENTICATED);

}  // namespace

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message());
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return Status();
  return Status(static_cast<Code>(status.error_code()), status.error_message());
}

}  // namespace outrider
