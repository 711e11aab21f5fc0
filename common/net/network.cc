#include "common/net/network.h"

#include <arpa/inet.h>

#include <array>
#include <iterator>

namespace outrider {

std::string NetworkOf(const std::string& address) {
  in6_addr parsed{};
  const std::string host = address.substr(0, address.find('%'));  // without the zone
  if (inet_pton(AF_INET6, host.c_str(), &parsed) != 1) return address;
  const auto* bytes = std::begin(parsed.s6_addr);
  if (!IN6_IS_ADDR_V4MAPPED(&parsed)) return {bytes, bytes + 8};
  std::array<char, INET_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET, bytes + 12, text.data(), text.size());
}

}  // namespace outrider
