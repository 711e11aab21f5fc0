// Plaintext leaves this machine only if somebody asked for it.
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// Whether a gRPC address can only reach this machine: 127.0.0.0/8, ::1, localhost, unix sockets,
// lists of these. Other names are assumed to be other machines.
bool IsLoopback(const std::string& address);

// kInvalidArgument for plaintext to or on an address beyond this machine. `flag` names the address,
// `remedy` the flags that would encrypt it.
Status CheckPlaintext(const std::string& flag, const std::string& address,
                      const std::string& remedy);

}  // namespace outrider
