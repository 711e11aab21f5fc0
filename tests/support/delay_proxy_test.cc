// Tests the proxy between a client and an echo server of the test.
#include "tests/support/delay_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace outrider::testing {
namespace {

using std::chrono::milliseconds;

constexpr int kForever = 60000;  // ms; only reached if the proxy is broken

// Echoes what it receives, one connection after another.
class EchoServer {
 public:
  EchoServer() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    listen(listener_, 8);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~EchoServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  void Run() {
    for (int fd; (fd = accept(listener_, nullptr, nullptr)) >= 0; close(fd)) {
      char bytes[4096];
      for (ssize_t got; (got = recv(fd, bytes, sizeof(bytes), 0)) > 0;) {
        for (ssize_t sent = 0; sent < got;) {
          const ssize_t n = send(fd, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
          if (n < 0) break;
          sent += n;
        }
      }
    }
  }
  int listener_;
  int port_;
  std::thread thread_;
};

class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const sockaddr_in address = {.sin_family = AF_INET,
                                 .sin_port = htons(static_cast<uint16_t>(port)),
                                 .sin_addr = {htonl(INADDR_LOOPBACK)}};
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { close(fd_); }

  void Send(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n < 0) return;
      sent += static_cast<size_t>(n);
    }
  }
  void EndSending() { shutdown(fd_, SHUT_WR); }
  bool Readable(int wait_ms) {
    pollfd fd = {fd_, POLLIN, 0};
    return poll(&fd, 1, wait_ms) == 1;
  }
  // Receives `size` bytes; fewer when the connection ends first.
  std::string Receive(size_t size) {
    std::string all(size, '\0');
    size_t got = 0;
    while (got < size && Readable(kForever)) {
      const ssize_t n = recv(fd_, all.data() + got, size - got, 0);
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    return all.substr(0, got);
  }
  bool Ended() {
    char byte;
    return Readable(kForever) && recv(fd_, &byte, 1, 0) <= 0;
  }

 private:
  int fd_;
};

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& b : bytes) b = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

std::unique_ptr<DelayProxy> Between(const EchoServer& server, DelayProxyOptions options = {}) {
  options.to = server.address();
  auto proxy = DelayProxy::Start(options);
  EXPECT_TRUE(proxy.ok()) << proxy.status().ToString();
  return std::move(proxy).value();
}

TEST(DelayLine, HoldsBytesInOrderForDelay) {
  DelayLine line(1);
  const Time start{};
  line.Push("first", {.delay = milliseconds(10)}, start);
  line.Push("second", {.delay = milliseconds(1)}, start + milliseconds(1));
  EXPECT_EQ(line.due(), start + milliseconds(10));
  EXPECT_EQ(line.front(), "first");
  line.Pop(2);
  EXPECT_EQ(line.front(), "rst");
  line.Pop(3);
  EXPECT_EQ(line.front(), "second");
  EXPECT_EQ(line.due(), start + milliseconds(10)) << "not before what went earlier";
  EXPECT_EQ(line.held(), 6u);
}

TEST(DelayLine, LossStallsAllAfterIt) {
  DelayLine line(1);
  const Time start{};
  line.Push("lost", {.loss = 1, .stall = milliseconds(200)}, start);
  line.Push("after", {}, start);
  EXPECT_EQ(line.due(), start + milliseconds(200));
  line.Pop(4);
  EXPECT_EQ(line.due(), start + milliseconds(200));
  EXPECT_EQ(line.stalls(), 1);
}

TEST(DelayLine, LossesAreOfSegments) {
  DelayLine line(1);
  for (int i = 0; i < 2000; ++i) {
    line.Push(std::string(3 * DelayLine::kSegmentBytes, 'x'), {.loss = 0.1}, Time{});
    line.Pop(line.held());
  }
  // 1 - 0.9^3 = 0.271 of 2000, standard deviation 20.
  EXPECT_NEAR(line.stalls(), 542, 100);
}

TEST(DelayProxy, BytesArriveUnchangedBeforeTheEnd) {
  EchoServer server;
  const auto proxy = Between(server, {.rtt = milliseconds(2)});
  Client client(proxy->port());
  const std::string sent = Pattern(8 << 20);  // more than a line's capacity
  std::thread sender([&] {
    client.Send(sent);
    client.EndSending();
  });
  EXPECT_TRUE(client.Receive(sent.size()) == sent);
  EXPECT_TRUE(client.Ended());
  sender.join();
}

TEST(DelayProxy, AnswerTakesAtLeastRoundTrip) {
  EchoServer server;
  const auto proxy = Between(server, {.rtt = milliseconds(40)});
  Client client(proxy->port());
  const Time start = std::chrono::steady_clock::now();
  client.Send("x");
  EXPECT_EQ(client.Receive(1), "x");
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(40));
  proxy->SetRtt(milliseconds(120));
  const Time again = std::chrono::steady_clock::now();
  client.Send("y");
  EXPECT_EQ(client.Receive(1), "y");
  EXPECT_GE(std::chrono::steady_clock::now() - again, milliseconds(120));
}

TEST(DelayProxy, LossIsAStall) {
  EchoServer server;
  const auto proxy = Between(server, {.stall = milliseconds(30)});
  Client client(proxy->port());
  proxy->SetLoss(1);
  const Time start = std::chrono::steady_clock::now();
  client.Send("x");
  EXPECT_EQ(client.Receive(1), "x");
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(60));
  EXPECT_EQ(proxy->stalls(), 2);
}

TEST(DelayProxy, PartitionHoldsAndHealDelivers) {
  EchoServer server;
  const auto proxy = Between(server);
  Client client(proxy->port());
  client.Send("before");
  EXPECT_EQ(client.Receive(6), "before");
  proxy->Partition();
  client.Send("during");
  Client late(proxy->port());
  late.Send("late");
  EXPECT_FALSE(client.Readable(50));
  EXPECT_FALSE(late.Readable(0));
  EXPECT_EQ(proxy->connections(), 1);
  proxy->Heal();
  EXPECT_EQ(client.Receive(6), "during");
  client.EndSending();  // the server serves one connection after another
  EXPECT_EQ(late.Receive(4), "late");
}

TEST(DelayProxy, CutClosesAndTakesNewConnections) {
  EchoServer server;
  const auto proxy = Between(server);
  Client client(proxy->port());
  client.Send("x");
  EXPECT_EQ(client.Receive(1), "x");
  proxy->Cut();
  EXPECT_EQ(proxy->connections(), 0);
  EXPECT_TRUE(client.Ended());
  Client again(proxy->port());
  again.Send("y");
  EXPECT_EQ(again.Receive(1), "y");
}

TEST(DelayProxy, ClosesConnectionsWithoutServer) {
  int port;
  {
    EchoServer server;
    port = atoi(server.address().substr(10).c_str());
  }
  auto proxy = DelayProxy::Start({.to = "127.0.0.1:" + std::to_string(port)});
  ASSERT_TRUE(proxy.ok());
  Client client((*proxy)->port());
  EXPECT_TRUE(client.Ended());
}

TEST(DelayProxy, RefusesWhatIsNoAddress) {
  EXPECT_FALSE(DelayProxy::Start({.to = "nowhere"}).ok());
  EXPECT_FALSE(DelayProxy::Start({.to = "not an address:1"}).ok());
  EXPECT_FALSE(DelayProxy::Start({.listen = "127.0.0.1:99999", .to = "127.0.0.1:1"}).ok());
}

}  // namespace
}  // namespace outrider::testing
