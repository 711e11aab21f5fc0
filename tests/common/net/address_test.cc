#include "common/net/address.h"

#include <gmock/gmock.h>

namespace outrider {
namespace {

TEST(CheckPort, RefusesPortsBeyondSixteenBits) {
  for (const char* bad :
       {"127.0.0.1:65536", "host:99999", "[::1]:123456789012345678901", ":70000"}) {
    EXPECT_THAT(CheckPort(bad).message(), ::testing::HasSubstr("at most 65535")) << bad;
  }
  for (const char* good : {"127.0.0.1:65535", "host:0", "[::1]:1", "[fe80::99999]", "host:http",
                           "unix:/run/99999", "dns:///host:80", "host", "host:"}) {
    EXPECT_TRUE(CheckPort(good).ok()) << good;
  }
}

}  // namespace
}  // namespace outrider
