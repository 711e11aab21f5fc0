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

TEST(CheckHostPort, WantsBracketsAroundIpv6) {
  EXPECT_THAT(CheckHostPort("::1:7300").message(), ::testing::HasSubstr("in brackets"));
}

TEST(CheckHostPort, NamesTheScheme) {
  EXPECT_THAT(CheckHostPort("http://127.0.0.1:7300").message(),
              ::testing::HasSubstr("leave out the scheme http://"));
}

TEST(CheckHostPort, NeedsHostAndNumber) {
  for (const char* bad : {"7300", "", ":7300", "host:", "host", "host:http", "host:1/x", "[::1]",
                          "[::1]:", "a b:1", "unix:/run/outrider"}) {
    EXPECT_THAT(CheckHostPort(bad).message(), ::testing::HasSubstr("is not host:port")) << bad;
  }
  for (const char* good : {"127.0.0.1:0", "host:65535", "[::1]:7300"}) {
    EXPECT_TRUE(CheckHostPort(good).ok()) << good;
  }
}

TEST(CheckGrpcTarget, LeavesSchemesOfGrpcAlone) {
  for (const char* good :
       {"dns:///host:80", "dns:host", "ipv4:127.0.0.1:1,127.0.0.2:1", "unix:/run/outrider",
        "unix:/run/x:99999", "xds:///v", "host:80", "[::1]:80"}) {
    EXPECT_TRUE(CheckGrpcTarget(good).ok()) << good;
  }
  for (const char* bad : {"http://host:80", "grpc://host:80", "7300", ":7300", "", "::1:7300",
                          "host:80/x", "dns:///host:70000"}) {
    EXPECT_EQ(CheckGrpcTarget(bad).code(), Code::kInvalidArgument) << bad;
  }
}

TEST(CheckGrpcTarget, PortMayBeNamedOrMissing) {
  for (const char* good : {"gateway.example", "host:https"}) {
    EXPECT_TRUE(CheckGrpcTarget(good).ok()) << good;
  }
}

}  // namespace
}  // namespace outrider
