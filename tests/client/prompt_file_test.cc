#include "client/prompt_file.h"

#include <gmock/gmock.h>

namespace outrider {
namespace {

using ::testing::HasSubstr;

TEST(PromptFile, ReadsPromptsDomainsAndLimits) {
  const auto prompts = ParsePrompts(
      "{\"prompt\": \"a\\nb\", \"domain\": \"code\", \"max_tokens\": 7, \"note\": [1]}\r\n"
      "\n"
      "{\"prompt\": \"c\"}",
      "p.jsonl");
  ASSERT_TRUE(prompts.ok()) << prompts.status().ToString();
  ASSERT_EQ(prompts->size(), 2u);
  EXPECT_EQ((*prompts)[0].prompt, "a\nb");
  EXPECT_EQ((*prompts)[0].domain, "code");
  EXPECT_EQ((*prompts)[0].max_tokens, 7u);
  EXPECT_EQ((*prompts)[1].prompt, "c");
  EXPECT_EQ((*prompts)[1].domain, "");
  EXPECT_FALSE((*prompts)[1].max_tokens.has_value());
}

TEST(PromptFile, ErrorNamesFileAndLine) {
  for (const char* bad :
       {"{\"prompt\": ", "[1]", "\"text\"", "{\"domain\": \"code\"}", "{\"prompt\": 3}",
        "{\"prompt\": \"a\", \"domain\": 1}", "{\"prompt\": \"a\", \"max_tokens\": -1}",
        "{\"prompt\": \"a\", \"max_tokens\": 1.5}",
        "{\"prompt\": \"a\", \"max_tokens\": 4294967296}", "{\"prompt\": \"\xff\"}"}) {
    const auto prompts = ParsePrompts(std::string("{\"prompt\": \"a\"}\n\n") + bad, "p.jsonl");
    ASSERT_FALSE(prompts.ok()) << bad;
    EXPECT_EQ(prompts.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(prompts.status().message(), HasSubstr("p.jsonl:3: ")) << bad;
  }
}

TEST(PromptFile, FileWithoutPromptIsError) {
  EXPECT_EQ(ParsePrompts("", "p.jsonl").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ParsePrompts("\n \n", "p.jsonl").status().code(), Code::kInvalidArgument);
}

TEST(PromptFile, MissingFileIsNotFound) {
  EXPECT_EQ(ReadPrompts("/nowhere/p.jsonl").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace outrider
