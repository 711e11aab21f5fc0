#include "common/rpc/status_map.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(StatusMap, EveryCodeRoundTrips) {
  for (int code = 1; code <= 16; ++code) {
    const Status status(static_cast<Code>(code), "why");
    const grpc::Status wire = ToGrpc(status);
    EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    EXPECT_EQ(wire.error_message(), "why");
    EXPECT_EQ(FromGrpc(wire).code(), status.code());
    EXPECT_EQ(FromGrpc(wire).message(), "why");
  }
}

TEST(StatusMap, OkIsOk) {
  EXPECT_TRUE(ToGrpc(Status()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(StatusMap, NamesAreThoseOfGrpc) {
  EXPECT_EQ(FromGrpc({grpc::StatusCode::UNAVAILABLE, "gone"}).ToString(), "UNAVAILABLE: gone");
  EXPECT_EQ(FromGrpc({grpc::StatusCode::DEADLINE_EXCEEDED, ""}).code(), Code::kDeadlineExceeded);
}

}  // namespace
}  // namespace outrider
