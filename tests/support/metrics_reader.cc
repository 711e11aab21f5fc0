#include "tests/support/metrics_reader.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

namespace outrider::testing {
namespace {

constexpr timeval kTimeout = {.tv_sec = 5, .tv_usec = 0};
constexpr char kRequest[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

std::string Fetch(int port) {
  const sockaddr_in address = {.sin_family = AF_INET,
                               .sin_port = htons(static_cast<uint16_t>(port)),
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  std::string text;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, kRequest, sizeof(kRequest) - 1, MSG_NOSIGNAL) > 0) {
    char bytes[16384];
    for (ssize_t got; (got = recv(fd, bytes, sizeof(bytes), 0)) > 0;) {
      text.append(bytes, static_cast<size_t>(got));
    }
  }
  close(fd);
  return text;
}

}  // namespace

std::map<std::string, double> ReadMetrics(int port) {
  std::map<std::string, double> values;
  std::istringstream lines(Fetch(port));
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (!line.starts_with("outrider_") || space == std::string::npos) continue;
    values[line.substr(0, line.find_first_of("{ "))] += atof(line.c_str() + space);
  }
  return values;
}

}  // namespace outrider::testing
