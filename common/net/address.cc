#include "common/net/address.h"

#include "common/base/printable.h"

namespace outrider {

Status CheckPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.find(']', colon) != std::string::npos) return Status();
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.find_first_not_of("0123456789") != std::string::npos) return Status();
  if (port.size() <= 5 && std::stoi(port) <= 65535) return Status();
  return InvalidArgument("'" + address + "': a port is at most 65535");
}

Status CheckHostPort(const std::string& address) {
  const std::string shown = "'" + Printable(address) + "'";
  if (const size_t scheme = address.find("://"); scheme != std::string::npos) {
    return InvalidArgument(shown + ": leave out the scheme " +
                           Printable(address.substr(0, scheme)) + "://, give host:port alone");
  }
  OUTRIDER_TRY(CheckPort(address));
  const size_t colon = address.rfind(':');
  const bool has_both = colon != std::string::npos && colon > 0 && colon + 1 < address.size() &&
                        address.find_first_not_of("0123456789", colon + 1) == std::string::npos &&
                        address.find_first_of("/ \t") == std::string::npos;
  return has_both ? Status() : InvalidArgument(shown + " is not host:port, such as 127.0.0.1:7300");
}

Status CheckGrpcTarget(const std::string& address) {
  for (const char* scheme : {"dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:"}) {
    if (address.starts_with(scheme)) return CheckPort(address);
  }
  return CheckHostPort(address);
}

}  // namespace outrider
