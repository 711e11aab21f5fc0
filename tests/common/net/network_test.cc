#include "common/net/network.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(NetworkOf, TakesHalfOfAnIpv6Address) {
  const std::string network = NetworkOf("2001:db8::1");
  EXPECT_EQ(network, std::string("\x20\x01\x0d\xb8\0\0\0\0", 8));
  EXPECT_EQ(NetworkOf("2001:db8:0:0:ffff::2%eth0"), network);
  EXPECT_NE(NetworkOf("2001:db8:0:1::1"), network);
}

TEST(NetworkOf, TakesAllOfAnIpv4Address) {
  EXPECT_EQ(NetworkOf("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(NetworkOf("::ffff:10.0.0.1"), "10.0.0.1");
}

TEST(NetworkOf, LeavesOtherTextUnchanged) {
  for (const char* other : {"unix:/tmp/socket", "nonsense", "%", ""}) {
    EXPECT_EQ(NetworkOf(other), other);
  }
}

}  // namespace
}  // namespace outrider
