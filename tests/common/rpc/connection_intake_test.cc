#include "common/rpc/connection_intake.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  void Close() {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  }
  // Waits for the peer to close; returns false if it sent something.
  bool AtEnd() const {
    char byte = 0;
    return recv(descriptor_, &byte, 1, 0) <= 0;
  }

 private:
  int descriptor_;
};

sockaddr_in Loopback(const char* address, int port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address, &name.sin_addr);
  return name;
}

// Takes over the server's side of every admitted connection.
class Taken {
 public:
  void Add(int descriptor) {
    MutexLock lock(mu_);
    all_.emplace_back(descriptor);
    changed_.notify_all();
  }
  bool Await(size_t count, Duration limit = testing::kTimeLimit) {
    MutexLock lock(mu_);
    const Time until = std::chrono::steady_clock::now() + limit;
    while (all_.size() < count) {
      if (lock.WaitUntil(changed_, until) == std::cv_status::timeout) return false;
    }
    return all_.size() == count;
  }
  void CloseFirst() {
    MutexLock lock(mu_);
    all_.front().Close();
  }

 private:
  Mutex mu_;
  std::condition_variable changed_;
  std::vector<Descriptor> all_ OUTRIDER_GUARDED_BY(mu_);
};

class ConnectionIntakeTest : public ::testing::Test {
 protected:
  void Start(const ConnectionLimits& limits) {
    auto intake = ConnectionIntake::Start("127.0.0.1:0", limits,
                                          [this](int descriptor) { taken_.Add(descriptor); });
    ASSERT_TRUE(intake.ok()) << intake.status().ToString();
    intake_ = std::move(intake).value();
  }

  Descriptor Connect(const char* from) const {
    const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in here = Loopback(from, 0);
    const sockaddr_in there = Loopback("127.0.0.1", intake_->port());
    EXPECT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&here), sizeof(here)), 0);
    EXPECT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
    return Descriptor(descriptor);
  }

  Taken taken_;
  std::unique_ptr<ConnectionIntake> intake_;
};

TEST_F(ConnectionIntakeTest, LimitsConnectionsPerPeerAndTotal) {
  Start({.total = 5, .per_peer = 3});
  std::vector<Descriptor> open;
  for (int i = 0; i < 3; ++i) open.push_back(Connect("127.0.0.1"));
  ASSERT_TRUE(taken_.Await(3));
  EXPECT_TRUE(Connect("127.0.0.1").AtEnd()) << "the fourth of one address";
  for (int i = 0; i < 2; ++i) open.push_back(Connect("127.0.0.2"));
  ASSERT_TRUE(taken_.Await(5));
  EXPECT_TRUE(Connect("127.0.0.3").AtEnd()) << "the sixth of all";
}

TEST_F(ConnectionIntakeTest, EndedConnectionMakesRoom) {
  Start({.total = 2, .per_peer = 2});
  const Descriptor first = Connect("127.0.0.1");
  const Descriptor second = Connect("127.0.0.1");
  ASSERT_TRUE(taken_.Await(2));
  EXPECT_TRUE(Connect("127.0.0.1").AtEnd());
  taken_.CloseFirst();
  // Closed connections are not detected immediately.
  for (int tries = 0; tries < 600; ++tries) {
    const Descriptor third = Connect("127.0.0.1");
    if (taken_.Await(3, std::chrono::milliseconds(100))) return;
  }
  FAIL() << "no room again";
}

TEST_F(ConnectionIntakeTest, TakenAddressIsNamed) {
  Start({});
  const std::string address = "127.0.0.1:" + std::to_string(intake_->port());
  const Status taken = ConnectionIntake::Start(address, {}, [](int) {}).status();
  EXPECT_EQ(taken.code(), Code::kUnavailable);
  EXPECT_NE(taken.message().find(address), std::string::npos) << taken.message();
}

}  // namespace
}  // namespace outrider
