// Which addresses count as one for limits.
#pragma once

#include <string>

namespace outrider {

// `address`: an IPv4 or IPv6 address as text ("10.0.0.1", "2001:db8::1", "fe80::1%eth0"). Returns
// an IPv4 address, including a mapped one, as text; of an IPv6 address the first 64 bits (8 bytes,
// not text), because a host often has such a network to itself; any other text unchanged.
std::string NetworkOf(const std::string& address);

}  // namespace outrider
