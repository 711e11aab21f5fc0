// Which drafters a verifier accepts: those with the same tokenization, however the logits are
// padded, and others if they share enough of their tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/text/tokenizer.h"
#include "tests/integration/random_models.h"
#include "tests/support/other_vocabulary.h"
#include "tests/support/raw_drafter.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::AddDraft;
using testing::Asked;
using ::testing::HasSubstr;
using testing::MakeRandomModel;
using ::testing::Not;
using testing::RawDrafter;
using testing::SourcePath;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;

constexpr int kVocabulary = 300;

class Handshake : public ::testing::Test {
 protected:
  TempDir dir_;
};

TEST_F(Handshake, RefusesDrafterSharingTooFewTokens) {
  const std::string target = MakeRandomModel(dir_ / "target", {.vocab_size = kVocabulary});
  const std::string other = MakeRandomModel(dir_ / "other", {.vocab_size = 2 * kVocabulary});
  const auto verifier = StartVerifier(target, dir_ / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  const auto drafter =
      StartDrafter(other, verifier.address(), dir_ / "drafter.log", {"--exit-on-refusal"});
  EXPECT_EQ(drafter->Wait(), 3) << drafter->Log();
  EXPECT_THAT(drafter->Log(), HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(drafter->Log(), HasSubstr("only 50 % of its 600 tokens are among the 300"));

  TestClient client(verifier.address());
  v1::GenerateRequest request;
  request.set_text("abc");
  request.mutable_stop()->set_max_tokens(5);
  EXPECT_TRUE(client.Generate(request).status.ok()) << "the verifier goes on";
}

// The drafter is the default one with other ids, some other tokens, and without one of the special
// tokens, which is in the prompt. A target as small as the drafter would not wait for its drafts.
TEST_F(Handshake, OtherVocabularyDraftsSharedTokens) {
  const std::string drafter_model = dir_ / "drafter";
  ASSERT_TRUE(WriteOtherVocabulary(SourcePath("models/default/drafter"), drafter_model).ok());
  const auto verifier = StartVerifier(SourcePath("models/default/target"), dir_ / "verifier.log",
                                      {"--min-draft-wait", "30"});
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(drafter_model, verifier.address(), dir_ / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();
  const v1::GetStatusResponse status = client.Status();
  const v1::VocabularyStatus& vocabulary = status.drafters(0).vocabulary();
  EXPECT_EQ(vocabulary.tokens(), 4096u);
  EXPECT_EQ(vocabulary.target_tokens(), 4096u);
  EXPECT_GT(vocabulary.shared(), 3500u);
  EXPECT_LT(vocabulary.shared(), 4090u);
  EXPECT_THAT(verifier.process->Log(), HasSubstr("translates=true"));

  const auto texts = [&](float temperature, v1::SpeculationOptions::Rule rule, bool drafts,
                         uint64_t* accepted) {
    std::vector<std::string> all;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      v1::GenerateRequest request;
      request.set_text("<|im_start|>Once upon a time");
      request.set_parse_special(true);
      request.set_seed(seed);
      request.mutable_sampling()->set_temperature(temperature);
      request.mutable_stop()->set_max_tokens(60);
      request.mutable_stop()->set_ignore_eos(true);
      request.mutable_speculation()->set_rule(rule);
      if (drafts) {
        request.mutable_speculation()->set_draft_length(4);
      } else {
        request.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
      }
      const TestClient::Outcome outcome = client.Generate(request);
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
      *accepted += outcome.finished.speculation().accepted_tokens();
      all.push_back(outcome.text);
    }
    return all;
  };
  constexpr uint64_t kEnough = 6 * 20;  // of 6 * 60 tokens
  for (const float temperature : {0.f, 1.f}) {
    const auto rule =
        temperature == 0 ? v1::SpeculationOptions::RULE_BLOCK : v1::SpeculationOptions::RULE_GUMBEL;
    uint64_t none = 0, accepted = 0;
    const std::vector<std::string> plain = texts(temperature, rule, false, &none);
    EXPECT_EQ(none, 0u);
    EXPECT_EQ(texts(temperature, rule, true, &accepted), plain);
    EXPECT_GE(accepted, kEnough);
  }
}

TEST_F(Handshake, PaddingIsNeverDrafted) {
  const std::string target = MakeRandomModel(dir_ / "target", {.vocab_size = kVocabulary});
  // The same model with more logits than tokens, like Qwen's 151936 and 152064.
  CheckpointOptions padded{.vocab_size = kVocabulary + 52};
  padded.tokenizer_tokens = kVocabulary;
  const std::string drafter_model = MakeRandomModel(dir_ / "drafter", padded);
  const auto verifier = StartVerifier(target, dir_ / "verifier.log", {"--min-draft-wait", "30"});
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(drafter_model, verifier.address(), dir_ / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();
  const v1::GenerateRequest request = testing::TextRequest("abc", 100);
  const TestClient::Outcome outcome = client.Generate(request);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_GT(outcome.finished.speculation().drafted_tokens(), 0u);
  // A verifier ends the stream of a drafter that drafts a token outside of its vocabulary.
  EXPECT_EQ(client.Status().drafters_size(), 1);
  EXPECT_THAT(verifier.process->Log(), Not(HasSubstr("drafter left")));
}

// A drafter of the release before: its hello names one version, and it ends the stream unless the
// verifier answers with the same.
TEST_F(Handshake, DrafterOfProtocolThreeIsServed) {
  const std::string target = MakeRandomModel(dir_ / "target", {.vocab_size = kVocabulary});
  const auto verifier = StartVerifier(target, dir_ / "verifier.log", {"--min-draft-wait", "30"});
  ASSERT_NE(verifier.port, 0);
  const auto tokenizer = Tokenizer::Load(target);
  ASSERT_TRUE(tokenizer.ok());
  RawDrafter old(verifier.address(), (*tokenizer)->fingerprint(), {.name = "old", .protocol = 3});
  const std::optional<v1::FromVerifier> welcome = old.Read();
  ASSERT_TRUE(welcome.has_value()) << old.End().error_message();
  EXPECT_EQ(welcome->welcome().protocol_version(), 3u);

  std::thread drafts([&old] {
    old.AnswerWith(v1::DRAFT_KIND_ARGMAX, [](const Asked& asked, v1::FromDrafter* message) {
      AddDraft(message, asked, asked.round, {5}, /*distributions=*/false);
    });
  });
  v1::GenerateRequest request;
  request.set_text("abc");
  request.mutable_sampling()->set_temperature(0);
  request.mutable_speculation()->set_draft_length(1);
  request.mutable_stop()->set_max_tokens(5);
  request.mutable_stop()->set_ignore_eos(true);
  const TestClient::Outcome outcome = TestClient(verifier.address()).Generate(request);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_GT(outcome.finished.speculation().drafted_tokens(), 0u) << verifier.process->Log();
  old.Cancel();
  drafts.join();
}

TEST_F(Handshake, NewerDrafterAgreesOnOurProtocol) {
  const std::string target = MakeRandomModel(dir_ / "target", {.vocab_size = kVocabulary});
  const auto verifier = StartVerifier(target, dir_ / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  const auto tokenizer = Tokenizer::Load(target);
  ASSERT_TRUE(tokenizer.ok());
  RawDrafter next(verifier.address(), (*tokenizer)->fingerprint(),
                  {.name = "next", .protocol = 4, .highest_protocol = 5});
  const std::optional<v1::FromVerifier> welcome = next.Read();
  ASSERT_TRUE(welcome.has_value()) << next.End().error_message();
  EXPECT_EQ(welcome->welcome().protocol_version(), 4u);
  RawDrafter far(verifier.address(), (*tokenizer)->fingerprint(),
                 {.name = "far", .protocol = 5, .highest_protocol = 6});
  const grpc::Status refused = far.End();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("the verifier speaks 3 to 4, the drafter 5 to 6"));
}

}  // namespace
}  // namespace outrider
