// Requests that begin alike meet at one of several verifiers, by the client's policy, by the header
// for proxies and by the digest for gateways.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "common/routing/page_hashes.h"
#include "tests/integration/random_models.h"
#include "tests/support/http_client.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using Json = nlohmann::json;
using ::testing::Contains;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpResponse;
using testing::Process;
using testing::ProgramPath;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;
using testing::VerifierProcess;

constexpr int kPageTokens = 16;

class PrefixRouting : public ::testing::Test {
 protected:
  // A text of letters that no other seed has.
  static std::string Letters(uint64_t seed, size_t size) {
    std::mt19937_64 random(seed);
    std::string text;
    while (text.size() < size) text += static_cast<char>('a' + random() % 26);
    return text;
  }

  // Prompts of kFamilies, by turns, each with kMembers and a prefix of kPrefixPages pages at least.
  static constexpr int kFamilies = 11;
  static constexpr int kMembers = 8;
  static constexpr size_t kPrefixPages = 20;
  std::string WriteFamilies(uint64_t seed) {
    const std::string path = dir_ / ("prompts-" + std::to_string(seed) + ".jsonl");
    std::ofstream out(path);
    for (uint64_t i = 0; i < kFamilies * kMembers; ++i) {
      const std::string prefix = Letters(seed + i % kFamilies, 2 * kPageTokens * kPrefixPages);
      out << Json({{"prompt", prefix + " " + std::to_string(i)}}) << "\n";
    }
    return path;
  }

  Json Bench(const std::vector<std::string>& verifiers, const std::string& prompts,
             std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        ProgramPath("outrider"), "bench", "--prompts",   prompts, "--json",
        "--max-tokens",          "2",     "--ignore-eos"};
    for (const std::string& verifier : verifiers) {
      arguments.insert(arguments.end(), {"--verifier", verifier});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::unique_ptr<Process> bench = Process::Start(arguments, dir_ / "bench.log");
    EXPECT_EQ(bench->Wait(), 0) << bench->Log();
    return Json::parse(bench->Log(), nullptr, false);
  }

  TempDir dir_;
  const std::string model_ = testing::MakeRandomModel(
      dir_ / "model", {.vocab_size = 300, .max_position_embeddings = 2048});
};

TEST_F(PrefixRouting, CachesMoreThanRoundRobin) {
  std::vector<VerifierProcess> verifiers;
  std::vector<std::string> addresses;
  for (int i = 0; i < 3; ++i) {
    verifiers.push_back(StartVerifier(model_, dir_ / ("verifier-" + std::to_string(i) + ".log")));
    ASSERT_NE(verifiers.back().port, 0);
    addresses.push_back(verifiers.back().address());
  }
  const Json by_turns = Bench(addresses, WriteFamilies(1000), {"--route", "round-robin"});
  const Json by_prefix = Bench(addresses, WriteFamilies(2000), {"--route", "prefix"});
  // Every member of a family but the first has its prefix, or but the first at each verifier.
  const int64_t family = static_cast<int64_t>(kPrefixPages * kPageTokens);
  EXPECT_GE(by_prefix["cached_prompt_tokens"], kFamilies * (kMembers - 1) * family) << by_prefix;
  EXPECT_GE(by_prefix["cached_prompt_tokens"].get<double>(),
            1.2 * by_turns["cached_prompt_tokens"].get<double>())
      << by_turns << by_prefix;

  const Json busy = Bench(addresses, WriteFamilies(3000), {"--concurrency", "12"});
  EXPECT_EQ(busy["requests_ok"], kFamilies * kMembers);
  EXPECT_EQ(busy["most_above_bound"], 0) << busy;
  for (const Json& verifier : busy["verifiers"]) {
    EXPECT_LE(verifier["most_in_flight"], 5) << busy;  // ceil(1.25 * 12 / 3)
  }
}

TEST_F(PrefixRouting, SurvivesLossOfVerifier) {
  std::vector<VerifierProcess> verifiers;
  std::vector<std::string> addresses;
  for (int i = 0; i < 2; ++i) {
    verifiers.push_back(StartVerifier(model_, dir_ / ("verifier-" + std::to_string(i) + ".log")));
    addresses.push_back(verifiers.back().address());
  }
  verifiers[0].process.reset();
  const Json report = Bench(addresses, WriteFamilies(1000), {"--concurrency", "4"});
  EXPECT_EQ(report["requests_ok"], kFamilies * kMembers);
}

TEST_F(PrefixRouting, HeaderAndDigestNamePromptPages) {
  VerifierProcess verifier =
      StartVerifier(model_, dir_ / "verifier.log",
                    {"--http", "127.0.0.1:0", "--prefix-digest", "--vllm-metrics"});
  ASSERT_NE(verifier.port, 0);
  EXPECT_EQ(Json::parse(Fetch(verifier.metrics_port, "GET", "/prefix_cache").body)["hashes"],
            Json::array());

  const std::string prompt = Letters(1, 300);
  const Json body = {{"prompt", prompt}, {"max_tokens", 2}};
  const auto complete = [&](const std::string& headers) {
    HttpResponse response =
        Fetch(verifier.http_port, "POST", "/v1/completions", body.dump(), headers);
    EXPECT_EQ(response.code, 200) << response.body;
    return response.headers["x-outrider-prefix"];
  };
  const std::string name = complete("");

  TestClient client(verifier.address());
  grpc::ClientContext context;
  v1::TokenizeRequest request;
  v1::TokenizeResponse tokens;
  request.set_text(prompt);
  request.set_add_prefix(true);
  ASSERT_TRUE(client.stub().Tokenize(&context, request, &tokens).ok());
  std::vector<TokenId> pages(tokens.token_ids().begin(), tokens.token_ids().end());
  pages.resize(pages.size() / kPageTokens * kPageTokens);
  const std::vector<uint64_t> hashes = TokenPageHashes(pages, kPageTokens, 64);
  ASSERT_GT(hashes.size(), 4u);
  EXPECT_EQ(name, PageHashText(hashes.back()));
  const Json page = Json::parse(Fetch(verifier.metrics_port, "GET", "/prefix_cache").body);
  EXPECT_EQ(page["page_tokens"], kPageTokens);
  EXPECT_EQ(page["model"], "model");
  const std::vector<std::string> listed = page["hashes"];
  for (const uint64_t hash : hashes) EXPECT_THAT(listed, Contains(PageHashText(hash)));

  EXPECT_EQ(complete("x-outrider-prefix: my-chat_7\r\n"), "my-chat_7");
  EXPECT_EQ(complete("X-Outrider-Prefix: " + std::string(200, 'x') + "\r\n"), name);
  EXPECT_THAT(Fetch(verifier.metrics_port, "GET", "/metrics").body,
              HasSubstr("vllm:cache_config_info{block_size=\"16\""));
}

TEST_F(PrefixRouting, NoDigestUnlessAskedFor) {
  VerifierProcess verifier = StartVerifier(model_, dir_ / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  EXPECT_EQ(Fetch(verifier.metrics_port, "GET", "/prefix_cache").code, 404);
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--prefix-digest", "--no-prefix-cache"}, {"--prefix-digest", "--metrics", ""}}) {
    std::vector<std::string> arguments = {ProgramPath("outrider-verifier"), "--model", model_};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const std::unique_ptr<Process> wrong = Process::Start(arguments, dir_ / "wrong.log");
    EXPECT_EQ(wrong->Wait(), 2);
    EXPECT_THAT(wrong->Log(), HasSubstr("--prefix-digest"));
  }
}

}  // namespace
}  // namespace outrider
