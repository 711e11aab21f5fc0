#include "common/net/address.h"

#include <algorithm>

#include "common/base/printable.h"

namespace outrider {
namespace {

std::string Shown(const std::string& address) { return "'" + Printable(address) + "'"; }

Status CheckNoScheme(const std::string& address) {
  const size_t scheme = address.find("://");
  if (scheme == std::string::npos) return Status();
  return InvalidArgument(Shown(address) + ": leave out the scheme " +
                         Printable(address.substr(0, scheme)) + "://, give host:port alone");
}

// "::1:7300" could be a host alone or one with a port.
Status CheckBrackets(const std::string& address) {
  if (address.starts_with('[') || std::ranges::count(address, ':') < 2) return Status();
  return InvalidArgument(Shown(address) + ": write an IPv6 address in brackets, [::1]:7300");
}

Status NotHostPort(const std::string& address) {
  return InvalidArgument(Shown(address) + " is not host:port, such as 127.0.0.1:7300");
}

}  // namespace

Status CheckPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.find(']', colon) != std::string::npos) return Status();
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.find_first_not_of("0123456789") != std::string::npos) return Status();
  if (port.size() <= 5 && std::stoi(port) <= 65535) return Status();
  return InvalidArgument("'" + address + "': a port is at most 65535");
}

Status CheckHostPort(const std::string& address) {
  OUTRIDER_TRY(CheckNoScheme(address));
  OUTRIDER_TRY(CheckPort(address));
  OUTRIDER_TRY(CheckBrackets(address));
  const size_t colon = address.rfind(':');
  const bool has_both = colon != std::string::npos && colon > 0 && colon + 1 < address.size() &&
                        address.find_first_not_of("0123456789", colon + 1) == std::string::npos &&
                        address.find_first_of("/ \t") == std::string::npos;
  return has_both ? Status() : NotHostPort(address);
}

Status CheckGrpcTarget(const std::string& address) {
  for (const char* scheme : {"unix:", "unix-abstract:", "vsock:"}) {
    if (address.starts_with(scheme)) return Status();
  }
  for (const char* scheme : {"dns:", "ipv4:", "ipv6:", "xds:"}) {
    if (address.starts_with(scheme)) return CheckPort(address);
  }
  OUTRIDER_TRY(CheckNoScheme(address));
  OUTRIDER_TRY(CheckPort(address));
  OUTRIDER_TRY(CheckBrackets(address));
  const bool has_host = !address.starts_with(':') &&
                        address.find_first_not_of("0123456789") != std::string::npos &&
                        address.find_first_of("/ \t") == std::string::npos;
  return has_host ? Status() : NotHostPort(address);
}

}  // namespace outrider
