#include "common/rpc/plaintext.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string_view>

namespace outrider {
namespace {

// "host" of "host:port", "[host]:port", "host"; a bare IPv6 address stays whole.
std::string_view HostOf(std::string_view address) {
  if (address.starts_with('[')) {
    const size_t end = address.find(']');
    return end == address.npos ? "" : address.substr(1, end - 1);
  }
  const size_t colon = address.find(':');
  return colon == address.rfind(':') ? address.substr(0, colon) : address;
}

}  // namespace

bool IsLoopback(const std::string& address) {
  if (const size_t comma = address.find(','); comma != address.npos) {  // ipv4:a:p,b:p
    const size_t scheme = address.starts_with("ipv") ? address.find(':') + 1 : 0;
    return IsLoopback(address.substr(0, comma)) &&
           IsLoopback(address.substr(0, scheme) + address.substr(comma + 1));
  }
  std::string_view rest = address;
  if (rest.starts_with("unix:") || rest.starts_with("unix-abstract:")) return true;
  for (const std::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  }
  if (rest.starts_with("///")) rest.remove_prefix(3);
  const std::string host(HostOf(rest));
  if (host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

Status CheckPlaintext(const std::string& flag, const std::string& address,
                      const std::string& remedy) {
  if (IsLoopback(address)) return Status();
  return InvalidArgument(flag + " " + address + " is beyond this machine and would be plaintext: " +
                         remedy + ", or accept it with --allow-plaintext");
}

}  // namespace outrider
