#include "drafter/rpc/verifier_target.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <sstream>
#include <string_view>

#include "common/base/input_file.h"
#include "common/net/address.h"

namespace outrider {
namespace {

struct HostPort {
  std::string host;  // without brackets
  std::string port;
};

Result<HostPort> Split(const std::string& text) {
  const auto wrong = [&text] {
    return InvalidArgument("'" + text + "' is not a host:port with a port from 1 to 65535");
  };
  const size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return wrong();
  HostPort split{.host = text.substr(0, colon), .port = text.substr(colon + 1)};
  int port = 0;
  const char* const end = split.port.data() + split.port.size();
  const auto [stop, error] = std::from_chars(split.port.data(), end, port);
  if (error != std::errc() || stop != end || port < 1 || port > 65535) return wrong();
  const bool bracketed = split.host.front() == '[' && split.host.back() == ']';
  if (bracketed) split.host = split.host.substr(1, split.host.size() - 2);
  if (split.host.empty() || (!bracketed && split.host.find(':') != text.npos)) return wrong();
  if (split.host.find_first_of("/[] \t") != text.npos) return wrong();
  return split;
}

}  // namespace

Result<VerifierTarget> ParseVerifierTarget(const std::string& text) {
  const std::string_view view = text;
  if (view.empty()) return InvalidArgument("an empty address");
  if (view.starts_with("file:")) {
    if (view == "file:") return InvalidArgument("'file:' names no file");
    return VerifierTarget{
        .kind = VerifierTarget::Kind::kFile, .text = text, .path = text.substr(5)};
  }
  if (!view.starts_with("dns:")) {
    OUTRIDER_TRY(CheckGrpcTarget(text));
    return VerifierTarget{.text = text};
  }
  std::string name = text.substr(4);
  if (name.starts_with("//")) {
    if (!name.starts_with("///")) {
      return InvalidArgument("'" + text +
                             "' names a DNS server, which is the system's to choose: write "
                             "dns:///host:port");
    }
    name = name.substr(3);
  }
  OUTRIDER_ASSIGN(HostPort split, Split(name));
  return VerifierTarget{.kind = VerifierTarget::Kind::kDns,
                        .text = text,
                        .host = std::move(split.host),
                        .port = std::move(split.port),
                        .authority = std::move(name)};
}

Result<std::vector<std::string>> SystemLookup(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return Unavailable(host + ": " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  std::vector<std::string> v4, v6;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (getnameinfo(info->ai_addr, info->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    if (info->ai_family == AF_INET) v4.push_back(std::string(text.data()) + ":" + port);
    if (info->ai_family == AF_INET6) v6.push_back("[" + std::string(text.data()) + "]:" + port);
  }
  std::vector<std::string> addresses = v4.empty() ? std::move(v6) : std::move(v4);
  if (addresses.empty()) return Unavailable(host + ": no address");
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

Result<std::vector<std::string>> ReadAddresses(const std::string& path) {
  OUTRIDER_ASSIGN(std::string text, ReadFile(path, kMaxTextFileBytes));
  std::istringstream in(std::move(text));
  std::vector<std::string> addresses;
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos || line[begin] == '#') continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    if (const Status split = Split(line).status(); !split.ok()) return split.Annotate(path);
    addresses.push_back(std::move(line));
  }
  return addresses;
}

}  // namespace outrider
