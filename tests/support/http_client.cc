#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <sstream>
#include <utility>

namespace outrider::testing {
namespace {

constexpr timeval kTimeout = {.tv_sec = 60, .tv_usec = 0};

}  // namespace

HttpClient::HttpClient(int port, int receive_buffer)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in address = {.sin_family = AF_INET,
                               .sin_port = htons(static_cast<uint16_t>(port)),
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  if (receive_buffer > 0) {
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  (void)connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

HttpClient::~HttpClient() { close(fd_); }

void HttpClient::SendRaw(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void HttpClient::Send(const std::string& method, const std::string& path, const std::string& body,
                      const std::string& headers) {
  std::string request = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers;
  if (!body.empty()) {
    request +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  SendRaw(request + "\r\n" + body);
}

bool HttpClient::Fill() {
  char bytes[16384];
  const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

bool HttpClient::TakeLine(std::string* line) {
  size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!Fill()) return false;
  }
  *line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return true;
}

bool HttpClient::Take(size_t count, std::string* out) {
  while (buffer_.size() < count) {
    if (!Fill()) return false;
  }
  out->append(buffer_, 0, count);
  buffer_.erase(0, count);
  return true;
}

std::optional<HttpResponse> HttpClient::Receive() {
  HttpResponse response;
  std::string line;
  if (!TakeLine(&line) || line.size() < 12) return std::nullopt;
  response.code = atoi(line.c_str() + 9);
  while (TakeLine(&line) && !line.empty()) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) return std::nullopt;
    std::string name = line.substr(0, colon);
    for (char& c : name) c = static_cast<char>(tolower(c));
    response.headers[name] = line.substr(colon + 2);
  }
  if (!line.empty()) return std::nullopt;
  if (response.headers.contains("content-length")) {
    const auto size = strtoul(response.headers["content-length"].c_str(), nullptr, 10);
    if (!Take(size, &response.body)) return std::nullopt;
  } else if (response.headers["transfer-encoding"] == "chunked") {
    for (size_t size = 1; size > 0;) {
      std::string end;
      if (!TakeLine(&line)) return std::nullopt;
      size = strtoul(line.c_str(), nullptr, 16);
      if (!Take(size, &response.body) || !Take(2, &end) || end != "\r\n") return std::nullopt;
    }
  }
  return response;
}

std::string HttpClient::ReceiveSome() {
  if (buffer_.empty() && !Fill()) return "";
  return std::exchange(buffer_, {});
}

bool HttpClient::AwaitEnd() {
  char bytes[16384];
  ssize_t got;
  while ((got = recv(fd_, bytes, sizeof(bytes), 0)) > 0) {
  }
  return got == 0 || errno == ECONNRESET;
}

HttpResponse Fetch(int port, const std::string& method, const std::string& path,
                   const std::string& body, const std::string& headers) {
  HttpClient client(port);
  client.Send(method, path, body, headers);
  return client.Receive().value_or(HttpResponse{});
}

std::vector<std::string> EventsOf(const std::string& body) {
  std::vector<std::string> events;
  std::istringstream lines(body);
  const std::string prefix = "data: ";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(prefix)) events.push_back(line.substr(prefix.size()));
  }
  return events;
}

}  // namespace outrider::testing
