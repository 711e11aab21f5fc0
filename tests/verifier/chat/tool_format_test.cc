#include "verifier/chat/tool_format.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/base/input_file.h"
#include "verifier/chat/reasoning.h"

namespace outrider {
namespace {

std::string TemplateOf(const std::string& family) {
  return ReadFile(std::string(OUTRIDER_SOURCE_DIR) + "/tests/common/text/jinja/templates/" +
                      family + ".jinja",
                  1 << 20)
      .value();
}

TEST(ToolFormat, IsWhatTheTemplateShows) {
  const std::vector<std::pair<std::string, ToolFormat>> families = {
      {"qwen3", ToolFormat::kHermes},    {"llama3_tools", ToolFormat::kLlama3Json},
      {"mistral", ToolFormat::kMistral}, {"deepseek", ToolFormat::kDeepSeekV3},
      {"glm", ToolFormat::kNone},        {"typescript_tools", ToolFormat::kHarmony},
      {"chatml", ToolFormat::kNone},     {"gemma", ToolFormat::kNone},
      {"zephyr", ToolFormat::kNone},
  };
  for (const auto& [family, format] : families) {
    EXPECT_EQ(DetectToolFormat(TemplateOf(family)), format) << family;
  }
  EXPECT_EQ(DetectToolFormat("'<｜tool▁call▁begin｜>' + name"), ToolFormat::kDeepSeekV31);
  EXPECT_EQ(DetectToolFormat("as [func_name1(a=1), func_name2(b=2)]"), ToolFormat::kPythonic);
  EXPECT_EQ(DetectToolFormat("<tool_call>\n<function=f>"), ToolFormat::kNone) << "XML";
}

TEST(ToolFormat, HasANameThatFindsIt) {
  for (const std::string& name : ToolFormatNames()) EXPECT_EQ(NameOf(ToolFormatOf(name)), name);
  for (const std::string& name : ReasoningFormatNames()) {
    EXPECT_EQ(NameOf(ReasoningFormatOf(name)), name);
  }
}

TEST(ReasoningFormat, IsWhatTheTemplateShows) {
  const std::vector<std::pair<std::string, ReasoningFormat>> families = {
      {"qwen3", ReasoningFormat::kQwen3},
      {"deepseek", ReasoningFormat::kQwen3},
      {"mistral", ReasoningFormat::kNone},
      {"typescript_tools", ReasoningFormat::kHarmony},
      {"llama2", ReasoningFormat::kNone}};
  for (const auto& [family, format] : families) {
    EXPECT_EQ(DetectReasoningFormat(TemplateOf(family)), format) << family;
  }
  EXPECT_EQ(DetectReasoningFormat("[THINK] .. [/THINK]"), ReasoningFormat::kMistral);
}

TEST(ReasoningFormat, PromptMayOpenReasoning) {
  const auto opens = [](const char* tail) { return OpensReasoning(ReasoningFormat::kQwen3, tail); };
  EXPECT_TRUE(opens("<|im_start|>assistant\n<think>\n"));
  EXPECT_TRUE(opens("<think></think><|im_start|>assistant\n<think>\nOkay"));
  EXPECT_FALSE(opens("<|im_start|>assistant\n"));
  EXPECT_FALSE(opens("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens(""));
  const auto harmony = [](const char* tail) {
    return OpensReasoning(ReasoningFormat::kHarmony, tail);
  };
  EXPECT_TRUE(harmony("<|start|>assistant<|channel|>analysis<|message|>"));
  EXPECT_FALSE(harmony("<|channel|>analysis<|message|>a<|end|><|start|>assistant"));
}

}  // namespace
}  // namespace outrider
