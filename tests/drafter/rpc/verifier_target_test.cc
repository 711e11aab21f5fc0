#include "drafter/rpc/verifier_target.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/services.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;

TEST(VerifierTarget, LeavesAddressesToGrpc) {
  const auto target = ParseVerifierTarget("verifier.example:7300");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->kind, VerifierTarget::Kind::kAddress);
  EXPECT_EQ(target->text, "verifier.example:7300");
  EXPECT_EQ(target->authority, "");
}

TEST(VerifierTarget, NameIsHostAndPort) {
  for (const std::string text : {"dns:///verifiers.ns:7300", "dns:verifiers.ns:7300"}) {
    const auto target = ParseVerifierTarget(text);
    ASSERT_TRUE(target.ok()) << target.status().ToString();
    EXPECT_EQ(target->kind, VerifierTarget::Kind::kDns);
    EXPECT_EQ(target->host, "verifiers.ns");
    EXPECT_EQ(target->port, "7300");
    EXPECT_EQ(target->authority, "verifiers.ns:7300");
  }
  const auto v6 = ParseVerifierTarget("dns:///[::1]:80");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->authority, "[::1]:80");
}

TEST(VerifierTarget, RefusesWhatIsNone) {
  for (const std::string text : {"", "file:", "dns:", "dns:///", "dns:///name", "dns:///name:",
                                 "dns:///name:0", "dns:///name:65536", "dns:///name:80x",
                                 "dns:///:80", "dns:///a:b:80", "dns:///a/b:80", "dns:///a b:80"}) {
    EXPECT_EQ(ParseVerifierTarget(text).status().code(), Code::kInvalidArgument) << text;
  }
  const Status server = ParseVerifierTarget("dns://10.0.0.1/name:80").status();
  EXPECT_EQ(server.code(), Code::kInvalidArgument);
  EXPECT_THAT(server.message(), HasSubstr("dns:///host:port"));
}

TEST(VerifierTarget, ResolvesNumbersAndLoopback) {
  const auto numbers = SystemLookup("127.0.0.3", "7300");
  ASSERT_TRUE(numbers.ok());
  EXPECT_THAT(*numbers, ElementsAre("127.0.0.3:7300"));
  const auto v6 = SystemLookup("::1", "80");
  ASSERT_TRUE(v6.ok());
  EXPECT_THAT(*v6, ElementsAre("[::1]:80"));
  const auto name = SystemLookup("localhost", "80");
  ASSERT_TRUE(name.ok());
  EXPECT_THAT(*name, ElementsAre("127.0.0.1:80")) << "one verifier, whatever else it is called";
  EXPECT_EQ(SystemLookup("no-such-host.invalid", "80").status().code(), Code::kUnavailable);
}

TEST(VerifierTarget, FileHasOneAddressPerLine) {
  TempDir dir;
  const std::string path = dir / "verifiers";
  std::ofstream(path) << "# of zone a\n10.0.0.1:7300\n\n  verifier.example:80 \r\n[::1]:90";
  const auto addresses = ReadAddresses(path);
  ASSERT_TRUE(addresses.ok()) << addresses.status().ToString();
  EXPECT_THAT(*addresses, ElementsAre("10.0.0.1:7300", "verifier.example:80", "[::1]:90"));
  std::ofstream(path) << "#\n";
  EXPECT_THAT(*ReadAddresses(path), IsEmpty());
  std::ofstream(path) << "10.0.0.1:7300\nnonsense\n";
  const Status nonsense = ReadAddresses(path).status();
  EXPECT_EQ(nonsense.code(), Code::kInvalidArgument);
  EXPECT_THAT(nonsense.message(), HasSubstr("'nonsense'"));
  EXPECT_EQ(ReadAddresses(dir / "none").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace outrider
