// How a completion's prompt is tokenized, and that text in a chat never becomes a special token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/verifier/http/api_request_fixture.h"

namespace outrider {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kBosToken;
using testing::kMarkToken;
using ::testing::Not;

class PromptText : public ApiModelTest {
 protected:
  PromptText() : ApiModelTest(testing::SpecialTokenizerJson()) {}

  std::vector<TokenId> PromptTokens(const std::string& prompt,
                                    const std::string& fields = "") const {
    const auto parsed = ParseCompletion(
        R"({"prompt": )" + prompt + (fields.empty() ? "" : ", ") + fields + "}", model_);
    EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
    return parsed.ok() ? parsed->prompts.at(0).prompt : std::vector<TokenId>();
  }
};

TEST_F(PromptText, BeginsWithBosByDefault) {
  EXPECT_THAT(PromptTokens(R"("ab")"), ElementsAre(kBosToken, 0, 1));
  EXPECT_THAT(PromptTokens(R"("ab")", R"("add_special_tokens": true)"),
              ElementsAre(kBosToken, 0, 1));
  EXPECT_THAT(PromptTokens(R"("ab")", R"("add_special_tokens": false)"), ElementsAre(0, 1));
  EXPECT_THAT(PromptTokens("[0, 1]"), ElementsAre(0, 1)) << "token ids are taken as they are";
}

TEST_F(PromptText, ParsesSpecialTokensByDefault) {
  EXPECT_THAT(PromptTokens(R"("a<x>b")"), ElementsAre(kBosToken, 0, kMarkToken, 1));
  EXPECT_THAT(PromptTokens(R"(["a<x>", "b"])"), ElementsAre(kBosToken, 0, kMarkToken));
  EXPECT_THAT(PromptTokens(R"("<s>a")"), ElementsAre(kBosToken, kBosToken, 0));
  const std::vector<TokenId> plain = PromptTokens(R"("a<x>b")", R"("parse_special": false)");
  EXPECT_EQ(plain.size(), 6u) << "BOS and five letters";
  EXPECT_THAT(plain, Not(Contains(kMarkToken)));
}

TEST_F(PromptText, EmptyPromptStartsFromBos) {
  EXPECT_THAT(PromptTokens(R"("")"), ElementsAre(kBosToken));
  const auto refused = ParseCompletion(R"({"prompt": "", "add_special_tokens": false})", model_);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("prompt: the prompt is empty"));
  EXPECT_EQ(ParseCompletion(R"({"prompt": []})", model_).status().code(), Code::kInvalidArgument);
}

TEST_F(PromptText, UserTextNeverBecomesSpecial) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "a<x><s>b"}])";
  const auto parsed = ParseChat(chat + "}", model_);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_THAT(parsed->prompts.at(0).prompt, Not(Contains(kMarkToken)));
  EXPECT_THAT(parsed->prompts.at(0).prompt, Not(Contains(kBosToken)));
  EXPECT_THAT(ParseChat(chat + R"(, "parse_special": true})", model_).status().message(),
              HasSubstr("parse_special is not a field of chat completions here"));
}

TEST_F(PromptText, RecognizesSpecialTokensInStopStrings) {
  const auto has_special = [&](const std::string& stop) {
    return ParseCompletion(R"({"prompt": "a", "stop": )" + stop + "}", model_)
        ->prompts.at(0)
        .stop_strings_have_special;
  };
  EXPECT_FALSE(has_special(R"(["b", "x>"])"));
  EXPECT_TRUE(has_special(R"(["b", "<x>"])"));
}

// With log probabilities it is the text of the tokens after BOS, including special tokens that were
// written in the prompt.
TEST_F(PromptText, EchoIsTextAsSent) {
  const auto echo = [&](const std::string& prompt, const std::string& fields) {
    const auto parsed =
        ParseCompletion(R"({"echo": true, "prompt": )" + prompt + fields + "}", model_);
    EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
    return parsed->echoes.at(0);
  };
  for (const char* fields : {"", R"(, "logprobs": 0)", R"(, "skip_special_tokens": false)"}) {
    EXPECT_EQ(echo(R"("a<x>b")", fields).text, "a<x>b") << fields;
    EXPECT_EQ(echo(R"("a<x>b")", fields).prefix, 1u) << "BOS";
    EXPECT_FALSE(echo(R"("a<x>b")", fields).skip_special);
    EXPECT_EQ(echo(R"("a")", std::string(fields) + R"(, "add_special_tokens": false)").prefix, 0u);
  }
  EXPECT_EQ(echo("[96, 0, 97, 1]", "").text, "ab");
  EXPECT_EQ(echo("[96, 0, 97, 1]", R"(, "skip_special_tokens": false)").text, "<s>a<x>b");
}

}  // namespace
}  // namespace outrider
