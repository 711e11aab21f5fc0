// Checks addresses in flags.
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// kInvalidArgument if the address ends in ":number" with a number above 65535, which a resolver
// would take modulo 65536. The resolver checks the rest.
Status CheckPort(const std::string& address);

// kInvalidArgument if the address is not host:port with a number from 0 to 65535. A scheme, such as
// http://, is named. Does not resolve the host.
Status CheckHostPort(const std::string& address);

// The same for an address to dial, of which gRPC takes more: the port may be a name or be missing
// (443), and the address may have a scheme of gRPC's: dns:, ipv4:, ipv6:, xds:, unix:,
// unix-abstract:, vsock:. What follows that is gRPC's to check.
Status CheckGrpcTarget(const std::string& address);

}  // namespace outrider
