#include "common/net/address.h"

namespace outrider {

Status CheckPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.find(']', colon) != std::string::npos) return Status();
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.find_first_not_of("0123456789") != std::string::npos) return Status();
  if (port.size() <= 5 && std::stoi(port) <= 65535) return Status();
  return InvalidArgument("'" + address + "': a port is at most 65535");
}

}  // namespace outrider
