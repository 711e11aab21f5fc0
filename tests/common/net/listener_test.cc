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

// A port that was free a moment ago. Another process may take it, so tests try several.
std::string FreeAddress() {
  TakenPort port;
  port.Release();
  return port.address();
}
constexpr int kTries = 50;

TEST(CheckCanListen, LeavesPortsFree) {
  bool is_free = false;
  for (int i = 0; i < kTries && !is_free; ++i) {
    const std::string address = FreeAddress();
    is_free = CheckCanListen({{"--listen", address}}).ok() &&
              CheckCanListen({{"--listen", address}}).ok();
  }
  EXPECT_TRUE(is_free);
}

TEST(CheckCanListen, FindsPortGivenTwice) {
  bool is_found = false;
  for (int i = 0; i < kTries && !is_found; ++i) {
    const std::string address = FreeAddress();
    const Status status = CheckCanListen({{"--listen", address}, {"--metrics", address}});
    ASSERT_FALSE(status.ok());
    is_found = status.message().find("choose another --metrics") != std::string::npos;
  }
  EXPECT_TRUE(is_found);
}

TEST(CheckCanListen, LeavesOutPortsThatAreOff) {
  EXPECT_TRUE(CheckCanListen({{"--listen", ""}, {"--metrics", ""}}).ok());
}

}  // namespace
}  // namespace outrider
