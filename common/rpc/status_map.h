// Our Status as gRPC's and back: the only place where the two meet.
#pragma once

#include <grpcpp/support/status.h>

#include "common/base/status.h"

namespace outrider {

grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

}  // namespace outrider
