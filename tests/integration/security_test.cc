// TLS, tokens, drafters' authorization and padding in the programs: who is admitted, and with which
// code and message others are rejected.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/rpc/channel.h"
#include "tests/integration/random_models.h"
#include "tests/support/certificates.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::CertificateAuthority;
using ::testing::HasSubstr;
using testing::IssuedCertificate;
using ::testing::Not;
using testing::Process;
using testing::ProgramPath;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using Flags = std::vector<std::string>;

constexpr int kRefusedExit = 3;
constexpr int kUsageExit = 2;

class Security : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name) << text;
    return dir_ / name;
  }

  static Flags TlsFlags(const IssuedCertificate& own, const std::string& ca) {
    return {"--tls-cert", own.cert, "--tls-key", own.key, "--tls-ca", ca};
  }

  // The exit code of a program that ends by itself; its output goes to `log`.
  int Run(const Flags& argv, std::string* log) {
    const auto process = Process::Start(argv, dir_ / "run.log");
    const int code = process->Wait();
    *log = process->Log();
    return code;
  }
  int RunOutrider(Flags arguments, std::string* log) {
    arguments.insert(arguments.begin(), ProgramPath("outrider"));
    return Run(arguments, log);
  }

  static v1::GenerateRequest Request() { return testing::TextRequest("abc", 40); }

  TempDir dir_;
  const std::string model_ = testing::MakeRandomModel(dir_ / "model");
};

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(Security, MutualTlsWithTokensServes) {
  const CertificateAuthority ca(dir_.path(), "ca");
  const std::string tokens = Write("clients", "alice token-a\n");
  const auto verifier = StartVerifier(model_, dir_ / "verifier.log",
                                      TlsFlags(ca.Issue("verifier"), ca.cert()) +
                                          Flags{"--client-tokens", tokens, "--drafter-names",
                                                "drafter-1,drafter-2", "--min-draft-wait", "30"});
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(model_, verifier.address(), dir_ / "drafter.log",
                                    TlsFlags(ca.Issue("drafter-1", ""), ca.cert()));
  const IssuedCertificate own = ca.Issue("client", "");
  const auto files = TlsFiles::Open({.cert = own.cert, .key = own.key, .ca = ca.cert()});
  ASSERT_TRUE(files.ok());
  TestClient client(verifier.address(), {.tls = (*files)->Current()}, "token-a");
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();
  const TestClient::Outcome outcome = client.Generate(Request());
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_GT(outcome.finished.speculation().accepted_tokens(), 0u);

  const Flags generate =
      Flags{"generate", "--verifier", verifier.address(), "--prompt", "abc", "--max-tokens", "3"};
  const Flags token = {"--token-file", Write("own", "token-a\n")};
  std::string log;
  EXPECT_EQ(RunOutrider(generate + TlsFlags(own, ca.cert()) + token, &log), 0) << log;
  EXPECT_EQ(RunOutrider(generate + TlsFlags(own, ca.cert()), &log), 1);
  EXPECT_THAT(log, HasSubstr("UNAUTHENTICATED"));
  EXPECT_EQ(RunOutrider(generate + Flags{"--tls-ca", ca.cert()} + token, &log), 1);
  EXPECT_THAT(log, HasSubstr("UNAVAILABLE")) << "no certificate, no connection";
  EXPECT_EQ(RunOutrider(generate + token, &log), 1);
  EXPECT_THAT(log, HasSubstr("UNAVAILABLE")) << "plaintext";
}

TEST_F(Security, RefusesDrafterOfAnotherName) {
  const CertificateAuthority ca(dir_.path(), "ca");
  const auto verifier =
      StartVerifier(model_, dir_ / "verifier.log",
                    TlsFlags(ca.Issue("verifier"), ca.cert()) + Flags{"--drafter-names", "good"});
  ASSERT_NE(verifier.port, 0);
  const auto drafter =
      StartDrafter(model_, verifier.address(), dir_ / "drafter.log",
                   TlsFlags(ca.Issue("bad", ""), ca.cert()) + Flags{"--exit-on-refusal"});
  EXPECT_EQ(drafter->Wait(), kRefusedExit) << drafter->Log();
  EXPECT_THAT(drafter->Log(), HasSubstr("the verifier refuses this drafter"));
  EXPECT_THAT(drafter->Log(), HasSubstr("PERMISSION_DENIED"));
  EXPECT_THAT(drafter->Log(), HasSubstr("--drafter-names, but bad"));
  EXPECT_NE(verifier.process->AwaitLine("drafter refused"), "");
}

TEST_F(Security, DrafterTokensFollowTheFile) {
  const std::string taken = Write("drafters", "token-1\n");
  const auto verifier = StartVerifier(model_, dir_ / "verifier.log", {"--drafter-tokens", taken});
  ASSERT_NE(verifier.port, 0);
  const Flags own = {"--token-file", Write("own", "token-2\n"), "--exit-on-refusal"};
  for (const Flags& flags : {own, Flags{"--exit-on-refusal"}}) {
    const auto refused = StartDrafter(model_, verifier.address(), dir_ / "refused.log", flags);
    EXPECT_EQ(refused->Wait(), kRefusedExit) << refused->Log();
    EXPECT_THAT(refused->Log(), HasSubstr("UNAUTHENTICATED"));
    EXPECT_THAT(refused->Log(), HasSubstr("--token-file"));
    EXPECT_THAT(refused->Log(), Not(HasSubstr("token-2")));
  }
  Write("drafters", "token-1\nsecond token-2\n");
  const auto drafter = StartDrafter(model_, verifier.address(), dir_ / "drafter.log", own);
  EXPECT_TRUE(TestClient(verifier.address()).AwaitDrafters(1)) << drafter->Log();
}

TEST_F(Security, AllCallsExceptHealthNeedTokens) {
  const auto verifier = StartVerifier(model_, dir_ / "verifier.log",
                                      {"--client-tokens", Write("clients", "token-a\n")});
  ASSERT_NE(verifier.port, 0);
  const auto call = [&](const std::string& method, const std::string& request = "") {
    return testing::CallByBytes(verifier.address(), method, request,
                                {{"authorization", "Bearer token-b"}});
  };
  const auto* service = v1::GenerateRequest::descriptor()->file()->FindServiceByName("Generation");
  ASSERT_NE(service, nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    const std::string name = service->method(i)->name();
    // Bytes that do not parse: the token is checked before them.
    const grpc::Status status = call("/outrider.v1.Generation/" + name, "\xff");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << name;
    EXPECT_THAT(status.error_message(), HasSubstr("authorization: Bearer <token>")) << name;
  }
  EXPECT_TRUE(call("/grpc.health.v1.Health/Check").ok());

  setenv("OUTRIDER_TOKEN", "token-a", 1);
  std::string log;
  EXPECT_EQ(RunOutrider({"status", "--verifier", verifier.address()}, &log), 0) << log;
  unsetenv("OUTRIDER_TOKEN");
  EXPECT_EQ(RunOutrider({"status", "--verifier", verifier.address()}, &log), 1);
}

TEST_F(Security, ReplacesCertificatesWhileRunning) {
  const CertificateAuthority ca(dir_.path(), "ca");
  const CertificateAuthority next_ca(dir_.path(), "next-ca");
  const IssuedCertificate served = ca.Issue("verifier");
  const std::string trusted = dir_ / "trusted.pem";
  std::filesystem::copy(ca.cert(), trusted);
  auto verifier = StartVerifier(model_, dir_ / "verifier.log",
                                {"--tls-cert", served.cert, "--tls-key", served.key});
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(model_, verifier.address(), dir_ / "drafter.log",
                                    {"--tls-ca", trusted, "--log-level", "debug"});
  ASSERT_NE(drafter->AwaitLine(" attached "), "") << drafter->Log();

  // From another authority: the drafter cannot connect until its own file is replaced, too.
  next_ca.Issue("verifier");
  const auto files = TlsFiles::Open({.ca = next_ca.cert()});
  ASSERT_TRUE(files.ok());
  TestClient client(verifier.address(), {.tls = (*files)->Current()});
  ASSERT_TRUE(client.AwaitDrafters(1)) << "its connection is still the old one";
  const std::string address = verifier.address();
  verifier.process.reset();
  ASSERT_NE(drafter->AwaitLine("not attached to the verifier"), "");
  const auto again =
      Process::Start({ProgramPath("outrider-verifier"), "--model", model_, "--metrics", "",
                      "--listen", address, "--tls-cert", served.cert, "--tls-key", served.key},
                     dir_ / "again.log");
  ASSERT_NE(again->AwaitLine(" serving "), "") << again->Log();
  std::filesystem::remove(trusted);
  std::filesystem::copy(next_ca.cert(), trusted);
  const auto changed = TlsFiles::Open({.ca = next_ca.cert()});
  ASSERT_TRUE(changed.ok());
  TestClient next_client(address, {.tls = (*changed)->Current()});
  EXPECT_TRUE(next_client.AwaitDrafters(1)) << drafter->Log();
}

TEST_F(Security, RemotePlaintextMustBeRequested) {
  std::string log;
  const Flags verifier = {ProgramPath("outrider-verifier"),
                          "--model",
                          model_,
                          "--metrics",
                          "",
                          "--listen",
                          "0.0.0.0:0"};
  EXPECT_EQ(Run(verifier, &log), kUsageExit);
  EXPECT_THAT(log, HasSubstr("--listen 0.0.0.0:0"));
  EXPECT_THAT(log, HasSubstr("--tls-cert"));
  EXPECT_THAT(log, HasSubstr("--allow-plaintext"));
  const Flags drafter = {ProgramPath("outrider-drafter"), "--model", model_, "--metrics", ""};
  EXPECT_EQ(Run(drafter + Flags{"--verifier", "verifier.example:7300"}, &log), kUsageExit);
  EXPECT_THAT(log, HasSubstr("--verifier verifier.example:7300"));
  EXPECT_THAT(log, HasSubstr("--tls-ca"));
  EXPECT_EQ(Run(drafter + Flags{"--verifier", "127.0.0.1:1", "--listen", "[::]:0"}, &log),
            kUsageExit);
  EXPECT_THAT(log, HasSubstr("--listen [::]:0"));

  const auto asked = Process::Start(
      verifier + Flags{"--allow-plaintext", "--client-tokens", Write("clients", "token-a\n")},
      dir_ / "asked.log");
  EXPECT_NE(asked->AwaitLine(" serving "), "") << asked->Log();
  EXPECT_THAT(asked->Log(), HasSubstr("tokens go over the network in plaintext"));
}

TEST_F(Security, ReportsStartupErrors) {
  const CertificateAuthority ca(dir_.path(), "ca");
  const IssuedCertificate one = ca.Issue("one");
  const IssuedCertificate two = ca.Issue("two");
  const Flags verifier = {ProgramPath("outrider-verifier"),
                          "--model",
                          model_,
                          "--metrics",
                          "",
                          "--listen",
                          "127.0.0.1:0"};
  struct Case {
    Flags flags;
    int exit_code;
    std::string words;
  };
  const std::vector<Case> cases = {
      {{"--tls-cert", one.cert}, kUsageExit, "give both"},
      {{"--tls-ca", ca.cert()}, kUsageExit, "--tls-ca needs --tls-cert"},
      {{"--drafter-names", "a"}, kUsageExit, "--drafter-names needs --tls-ca"},
      {{"--tls-cert", one.cert, "--tls-key", two.key}, 1, "is not the private key of"},
      {{"--tls-cert", one.cert, "--tls-key", dir_ / "none"}, 1, "none: cannot be read"},
      {{"--client-tokens", dir_ / "none"}, 1, "none: cannot be read"},
      {{"--drafter-tokens", Write("empty", "#\n")}, 1, "holds no token"},
  };
  for (const Case& c : cases) {
    std::string log;
    EXPECT_EQ(Run(verifier + c.flags, &log), c.exit_code) << c.words;
    EXPECT_THAT(log, HasSubstr(c.words));
  }
}

TEST_F(Security, PaddedResponsesHaveOneSize) {
  const auto verifier = StartVerifier(model_, dir_ / "verifier.log", {"--pad-responses", "256"});
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(model_, verifier.address(), dir_ / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();
  grpc::ClientContext context;
  const auto reader = client.stub().Generate(&context, Request());
  v1::GenerateResponse response;
  int messages = 0;
  uint32_t tokens = 0;
  while (reader->Read(&response)) {
    EXPECT_EQ(response.ByteSizeLong(), 256u) << response.ShortDebugString();
    tokens += static_cast<uint32_t>(response.chunk().token_ids_size());
    ++messages;
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_GT(messages, 1);
  EXPECT_EQ(tokens, 40u);
}

}  // namespace
}  // namespace outrider
