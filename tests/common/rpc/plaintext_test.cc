#include "common/rpc/plaintext.h"

#include <gmock/gmock.h>

namespace outrider {
namespace {

using ::testing::HasSubstr;

TEST(Plaintext, KnowsTheLoopbackInEverySpelling) {
  for (const char* address :
       {"127.0.0.1:7300", "127.0.0.1", "127.255.3.4:1", "localhost:7300", "localhost", "[::1]:7300",
        "::1", "[::ffff:127.0.0.1]:80", "ipv4:127.0.0.1:80", "ipv6:[::1]:80", "dns:localhost:80",
        "dns:///localhost:80", "unix:/run/outrider.sock", "unix:///run/outrider.sock",
        "unix-abstract:outrider", "ipv4:127.0.0.1:1,127.0.0.1:2", "ipv6:[::1]:1,[::1]:2"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
}

TEST(Plaintext, TakesEverythingElseForAnotherMachine) {
  for (const char* address :
       {"0.0.0.0:7300", "[::]:7300", "10.0.0.1:7300", "126.0.0.1:1", "128.0.0.1:1", "verifier:7300",
        "localhost.example.com:7300", "127.0.0.1.example.com:7300", "127.1:80", "2130706433:80",
        "[fe80::1]:7300", "[::ffff:10.0.0.1]:80", "dns://127.0.0.1/verifier:7300", ":7300", "", "[",
        "[::1", "ipv4:127.0.0.1:1,10.0.0.1:1", "ipv4:10.0.0.1:1,127.0.0.1:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

TEST(Plaintext, SaysWhatToDo) {
  EXPECT_TRUE(CheckPlaintext("--listen", "127.0.0.1:1", "give --tls-cert").ok());
  const Status status = CheckPlaintext("--listen", "0.0.0.0:1", "give --tls-cert");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("--listen 0.0.0.0:1"));
  EXPECT_THAT(status.message(), HasSubstr("give --tls-cert"));
  EXPECT_THAT(status.message(), HasSubstr("--allow-plaintext"));
}

}  // namespace
}  // namespace outrider
