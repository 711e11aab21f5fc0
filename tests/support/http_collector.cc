#include "tests/support/http_collector.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "tests/support/time_limit.h"

namespace outrider::testing {

HttpCollector::HttpCollector(AnswerFn answer) : answer_(std::move(answer)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Serve(); });
}

HttpCollector::~HttpCollector() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    MutexLock lock(mu_);
    for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
  }
  for (std::thread& reader : readers_) reader.join();
  for (const int connection : connections_) close(connection);
  close(listener_);
}

std::vector<HttpCollector::Request> HttpCollector::requests() {
  MutexLock lock(mu_);
  return requests_;
}

bool HttpCollector::Await(size_t count) {
  const auto until = std::chrono::steady_clock::now() + kTimeLimit;
  MutexLock lock(mu_);
  while (requests_.size() < count) {
    if (lock.WaitUntil(arrived_, until) == std::cv_status::timeout) return false;
  }
  return true;
}

void HttpCollector::Serve() {
  for (int connection = 0; (connection = accept(listener_, nullptr, nullptr)) >= 0;) {
    {
      MutexLock lock(mu_);
      connections_.push_back(connection);
    }
    readers_.emplace_back([this, connection] { AnswerAll(connection); });
  }
}

bool HttpCollector::Read(int connection, std::string* buffer, Request* request) {
  const auto fill = [&] {
    std::array<char, 65536> piece;
    const ssize_t n = recv(connection, piece.data(), piece.size(), 0);
    if (n > 0) buffer->append(piece.data(), static_cast<size_t>(n));
    return n > 0;
  };
  size_t end = 0;
  while ((end = buffer->find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return false;
  }
  request->head = buffer->substr(0, end + 4);
  buffer->erase(0, end + 4);
  const char* const length = strcasestr(request->head.c_str(), "\r\ncontent-length:");
  const size_t bytes = length == nullptr ? 0 : std::strtoul(length + 17, nullptr, 10);
  while (buffer->size() < bytes) {
    if (!fill()) return false;
  }
  request->body = buffer->substr(0, bytes);
  buffer->erase(0, bytes);
  return true;
}

void HttpCollector::AnswerAll(int connection) {
  std::string buffer;
  for (Request request; Read(connection, &buffer, &request);) {
    Answer answer;
    {
      MutexLock lock(mu_);
      if (answer_ != nullptr) answer = answer_(static_cast<int>(requests_.size()));
      requests_.push_back(std::move(request));
      arrived_.notify_all();
    }
    const std::string reply = "HTTP/1.1 " + std::to_string(answer.code) + " x\r\n" +
                              answer.headers + "Content-Type: application/json\r\n" +
                              "Content-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n" +
                              answer.body;
    if (send(connection, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) return;
  }
}

}  // namespace outrider::testing
