// Which drafters a verifier takes: the same tokenization, however the logits are padded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/checkpoint_maker.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using testing::StartDrafter;
using testing::StartVerifier;
using testing::TempDir;
using testing::TestClient;

constexpr int kVocabulary = 300;

class Handshake : public ::testing::Test {
 protected:
  // A random model with a byte-level tokenizer that fills `vocab_size`.
  std::string Make(const std::string& name, CheckpointOptions options) {
    options.tokenizer = true;
    const std::string path = dir_ / name;
    const Status status = MakeCheckpoint(path, options);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return path;
  }

  TempDir dir_;
};

TEST_F(Handshake, DrafterOfAnotherTokenizerIsRefusedWithWordsThatSayWhatDiffers) {
  const std::string target = Make("target", {.vocab_size = kVocabulary});
  const std::string other = Make("other", {.vocab_size = kVocabulary + 20});
  const auto verifier = StartVerifier(target, dir_ / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  const auto drafter =
      StartDrafter(other, verifier.address(), dir_ / "drafter.log", {"--exit-on-refusal"});
  EXPECT_EQ(drafter->Wait(), 3) << drafter->Log();
  EXPECT_THAT(drafter->Log(), HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(drafter->Log(), HasSubstr("320"));
  EXPECT_THAT(drafter->Log(), HasSubstr("300"));

  TestClient client(verifier.address());
  v1::GenerateRequest request;
  request.set_text("abc");
  request.mutable_stop()->set_max_tokens(5);
  EXPECT_TRUE(client.Generate(request).status.ok()) << "the verifier goes on";
}

TEST_F(Handshake, PaddedVocabularyIsAcceptedAndPaddingIsNeverDrafted) {
  const std::string target = Make("target", {.vocab_size = kVocabulary});
  // The same model with more rows of logits than tokens, as Qwen's 151936 and 152064 are.
  CheckpointOptions padded{.vocab_size = kVocabulary + 52};
  padded.tokenizer_tokens = kVocabulary;
  const std::string drafter_model = Make("drafter", padded);
  const auto verifier = StartVerifier(target, dir_ / "verifier.log");
  ASSERT_NE(verifier.port, 0);
  const auto drafter = StartDrafter(drafter_model, verifier.address(), dir_ / "drafter.log");
  TestClient client(verifier.address());
  ASSERT_TRUE(client.AwaitDrafters(1)) << drafter->Log();
  v1::GenerateRequest request;
  request.set_text("abc");
  request.mutable_stop()->set_max_tokens(100);
  request.mutable_stop()->set_ignore_eos(true);
  const TestClient::Outcome outcome = client.Generate(request);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_GT(outcome.finished.speculation().drafted_tokens(), 0u);
  for (const uint32_t token : outcome.tokens) EXPECT_LT(token, static_cast<uint32_t>(kVocabulary));
}

}  // namespace
}  // namespace outrider
