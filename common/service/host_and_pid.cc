#include "common/service/host_and_pid.h"

#include <unistd.h>

#include <array>

namespace outrider {

std::string HostAndPid() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return std::string(host.data()) + ":" + std::to_string(getpid());
}

}  // namespace outrider
