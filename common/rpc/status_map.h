// Converts our Status to gRPC's and back; the only place that does.
#pragma once

#include <grpcpp/support/status.h>

#include "common/base/status.h"

namespace outrider {

grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

}  // namespace outrider
