// Several verifiers and a changing number of drafters: every drafter serves all verifiers, traffic
// spreads over new ones, and no verifier starves.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/random_models.h"
#include "tests/support/certificates.h"
#include "tests/support/services.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using testing::CertificateAuthority;
using ::testing::HasSubstr;
using testing::IssuedCertificate;
using testing::Process;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

class Scaling : public ::testing::Test {
 protected:
  static constexpr int kContext = 8192;

  struct Verifier {
    VerifierProcess process;
    std::unique_ptr<TestClient> client;
  };

  Verifier Start(const std::string& name, const std::vector<std::string>& flags = {}) {
    Verifier verifier{.process = StartVerifier(target_, dir_ / (name + ".log"), flags)};
    verifier.client = std::make_unique<TestClient>(verifier.process.address());
    return verifier;
  }

  void WriteList(const std::vector<std::string>& addresses) {
    {
      std::ofstream out(list_ + ".next");
      for (const std::string& address : addresses) out << address << "\n";
    }
    ASSERT_EQ(rename((list_ + ".next").c_str(), list_.c_str()), 0);
  }

  // Sends requests to a verifier, `concurrency` at a time, none of which may fail. Returns whether
  // one of them had drafts.
  static bool Ask(TestClient& client, int concurrency) {
    std::vector<std::thread> threads;
    std::atomic<int> with_drafts = 0;
    for (int i = 0; i < concurrency; ++i) {
      threads.emplace_back([&client, &with_drafts, i] {
        for (int n = 0; n < 2; ++n) {
          const v1::GenerateRequest request =
              testing::TextRequest("request " + std::to_string(i) + " " + std::to_string(n), 40);
          const TestClient::Outcome outcome = client.Generate(request);
          EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
          EXPECT_EQ(outcome.tokens.size(), 40u);
          if (outcome.finished.speculation().accepted_tokens() > 0) ++with_drafts;
        }
      });
    }
    for (std::thread& t : threads) t.join();
    return with_drafts > 0;
  }

  // Tokens that each drafter has drafted for a verifier.
  static std::map<std::string, uint64_t> Drafted(TestClient& client) {
    std::map<std::string, uint64_t> drafted;
    const v1::GetStatusResponse status = client.Status();
    for (const auto& drafter : status.drafters()) {
      drafted[drafter.name()] = drafter.drafted_tokens();
    }
    return drafted;
  }

  TempDir dir_;
  const CheckpointOptions long_context_ = {.vocab_size = 300, .max_position_embeddings = kContext};
  const std::string target_ = testing::MakeRandomModel(dir_ / "target", long_context_);
  const std::string drafter_ = testing::MakeRandomDrafter(dir_ / "drafter", long_context_);
  const std::string list_ = dir_ / "verifiers";
};

TEST_F(Scaling, VerifiersAndDraftersShareTheWork) {
  std::vector<Verifier> verifiers;
  std::vector<std::string> addresses;
  for (int i = 0; i < 3; ++i) {
    verifiers.push_back(Start("verifier-" + std::to_string(i)));
    addresses.push_back(verifiers.back().process.address());
  }
  WriteList(addresses);
  // One verifier has far more to do than the others. Repeats until each had drafts: requests may
  // end before the first draft arrives from a drafter that is not waited for, like one that a busy
  // machine has made late.
  const auto ask_all = [&](const std::function<bool()>& drafts_for_all) {
    std::vector<char> had_drafts(verifiers.size(), 0);
    const auto until = std::chrono::steady_clock::now() + testing::kTimeLimit;
    do {
      std::vector<std::thread> threads;
      for (size_t i = 0; i < verifiers.size(); ++i) {
        threads.emplace_back([&, i] {
          if (Ask(*verifiers[i].client, i == 0 ? 12 : 2)) had_drafts[i] = 1;
        });
      }
      for (std::thread& t : threads) t.join();
      const bool all = std::find(had_drafts.begin(), had_drafts.end(), 0) == had_drafts.end();
      if (all && drafts_for_all()) return;
    } while (std::chrono::steady_clock::now() < until);
    ADD_FAILURE() << "a verifier is without drafts";
  };

  std::vector<std::unique_ptr<Process>> drafters;
  for (int n = 1; n <= 5; ++n) {
    const std::string name = "drafter-" + std::to_string(n);
    drafters.push_back(StartDrafter(drafter_, "file:" + list_, dir_ / (name + ".log"),
                                    {"--name", name, "--max-sessions", "8", "--threads", "1"}));
    for (Verifier& v : verifiers) ASSERT_TRUE(v.client->AwaitDrafters(n)) << drafters.back()->Log();
    ask_all([&] {
      return std::all_of(verifiers.begin(), verifiers.end(),
                         [&](Verifier& v) { return Drafted(*v.client).at(name) > 0; });
    });
  }
  std::map<std::string, uint64_t> total;
  for (Verifier& v : verifiers) {
    uint64_t verifier_tokens = 0;
    for (const auto& [name, tokens] : Drafted(*v.client)) {
      total[name] += tokens;
      verifier_tokens += tokens;
    }
    EXPECT_GT(verifier_tokens, 0u);
  }
  EXPECT_EQ(total.size(), 5u);

  for (int n = 4; n >= 1; --n) {
    drafters.front()->Signal(SIGTERM);
    EXPECT_EQ(drafters.front()->Wait(), 0) << drafters.front()->Log();
    drafters.erase(drafters.begin());
    for (Verifier& v : verifiers) ASSERT_TRUE(v.client->AwaitDrafters(n));
    ask_all([] { return true; });
  }
}

TEST_F(Scaling, RemovedVerifierKeepsDraftsOfSessions) {
  Verifier one = Start("one"), two = Start("two");
  WriteList({one.process.address(), two.process.address()});
  const auto drafter = StartDrafter(drafter_, "file:" + list_, dir_ / "drafter.log");
  ASSERT_TRUE(one.client->AwaitDrafters(1)) << drafter->Log();
  ASSERT_TRUE(two.client->AwaitDrafters(1)) << drafter->Log();

  grpc::ClientContext context;
  const v1::GenerateRequest request =
      testing::TextRequest("a long story", kContext - 100);  // longer than the update takes
  const auto reader = one.client->stub().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  WriteList({two.process.address()});
  ASSERT_NE(drafter->AwaitLine("verifier left; its sessions may finish"), "");
  const auto drafted = [&one]() -> uint32_t {
    const v1::GetStatusResponse status = one.client->Status();
    return status.sessions_size() == 0 ? 0 : status.sessions(0).drafted_tokens();
  };
  const uint32_t before = drafted();
  ASSERT_EQ(one.client->Status().sessions_size(), 1) << "the text was over before the news";
  bool drafts_go_on = false;
  while (!drafts_go_on && reader->Read(&response)) drafts_go_on = drafted() > before;
  EXPECT_TRUE(drafts_go_on);
  EXPECT_EQ(one.client->Status().drafters_size(), 1);
  context.TryCancel();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(one.client->AwaitDrafters(0)) << drafter->Log();
  EXPECT_EQ(two.client->Status().drafters_size(), 1);

  WriteList({one.process.address(), two.process.address()});
  EXPECT_TRUE(one.client->AwaitDrafters(1)) << drafter->Log();
}

TEST_F(Scaling, CertificateMustCarryResolvedName) {
  const CertificateAuthority ca(dir_.path(), "ca");
  const auto start = [&](const std::string& name, const std::string& hosts) {
    const IssuedCertificate own = ca.Issue(name, hosts);
    return StartVerifier(target_, dir_ / (name + ".log"),
                         {"--tls-cert", own.cert, "--tls-key", own.key});
  };
  const auto port_of = [](const VerifierProcess& v) { return std::to_string(v.port); };
  // The connection goes to 127.0.0.1; the certificate must have the name that was requested.
  const auto named = start("named", "DNS:localhost");
  const auto numbered = start("numbered", "IP:127.0.0.1");
  ASSERT_NE(named.port, 0);
  ASSERT_NE(numbered.port, 0);
  const auto good = StartDrafter(drafter_, "dns:///localhost:" + port_of(named), dir_ / "good.log",
                                 {"--tls-ca", ca.cert()});
  EXPECT_NE(good->AwaitLine("INFO attached "), "") << good->Log();
  const auto bad = StartDrafter(drafter_, "dns:///localhost:" + port_of(numbered), dir_ / "bad.log",
                                {"--tls-ca", ca.cert()});
  EXPECT_NE(bad->AwaitLine("not attached to the verifier"), "") << bad->Log();
  EXPECT_EQ(bad->Log().find("INFO attached "), std::string::npos);
  // --tls-server-name takes precedence over the name.
  const auto told =
      StartDrafter(drafter_, "dns:///localhost:" + port_of(numbered), dir_ / "told.log",
                   {"--tls-ca", ca.cert(), "--tls-server-name", "127.0.0.1"});
  EXPECT_NE(told->AwaitLine("INFO attached "), "") << told->Log();
}

TEST_F(Scaling, ReportsNamesWithoutVerifier) {
  for (const auto& [target, words] :
       std::map<std::string, std::string>{{"dns:///localhost", "not a host:port"},
                                          {"dns://10.0.0.1/localhost:80", "dns:///host:port"},
                                          {"dns:///verifier.example:80", "--tls-ca"},
                                          {"file:" + dir_ / "none", "cannot be read"}}) {
    const auto drafter = StartDrafter(drafter_, target, dir_ / "wrong.log");
    EXPECT_EQ(drafter->Wait(), 2) << target;
    EXPECT_THAT(drafter->Log(), HasSubstr(words)) << target;
  }
}

}  // namespace
}  // namespace outrider
