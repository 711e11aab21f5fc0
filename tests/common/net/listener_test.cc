#include "common/net/listener.h"

#include <gmock/gmock.h>

#include <boost/asio/io_context.hpp>
#include <optional>

namespace outrider {
namespace {

using ::testing::HasSubstr;

// Listens on a free port until it is released.
class TakenPort {
 public:
  TakenPort() {
    const Status status = listener_.emplace(io_).Listen("127.0.0.1:0", "--listen");
    EXPECT_TRUE(status.ok()) << status.ToString();
    address_ = "127.0.0.1:" + std::to_string(listener_->port());
  }
  void Release() { listener_.reset(); }
  const std::string& address() const { return address_; }

 private:
  boost::asio::io_context io_;
  std::optional<Listener> listener_;
  std::string address_;
};

TEST(CheckCanListen, NamesFlagOfTakenPort) {
  TakenPort taken;
  const Status status =
      CheckCanListen({{"--listen", "127.0.0.1:0"}, {"--metrics", taken.address()}, {"--http", ""}});
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("cannot listen on " + taken.address()));
  EXPECT_THAT(status.message(), HasSubstr("choose another --metrics"));
}

TEST(CheckCanListen, LeavesPortsFree) {
  TakenPort port;
  port.Release();
  for (int i = 0; i < 2; ++i) {
    const Status status = CheckCanListen({{"--listen", port.address()}});
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(CheckCanListen, FindsPortGivenTwice) {
  TakenPort port;
  port.Release();
  const Status status =
      CheckCanListen({{"--listen", port.address()}, {"--metrics", port.address()}});
  EXPECT_THAT(status.message(), HasSubstr("choose another --metrics"));
}

TEST(CheckCanListen, LeavesOutUnixSockets) {
  EXPECT_TRUE(CheckCanListen({{"--listen", "unix:/run/outrider"}, {"--metrics", ""}}).ok());
}

}  // namespace
}  // namespace outrider
