// Tests the embedded pair's tokenizer on vectors written during its training.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/common/text/tiny_tokenizers.h"

namespace outrider {
namespace {

const std::filesystem::path kModels = OUTRIDER_SOURCE_DIR "/models/default";

std::unique_ptr<Tokenizer> LoadFrom(const char* model) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(kModels / model);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return std::move(tokenizer).value();
}

TEST(DefaultTokenizer, AgreesWithItsVectors) {
  const auto tokenizer = LoadFrom("target");
  std::ifstream in(kModels / "reference_logits.json");
  const auto file = nlohmann::json::parse(in);
  ASSERT_GT(file["tokenizer"].size(), 10u);
  for (const auto& vector : file["tokenizer"]) {
    const std::string text = vector["text"];
    const std::vector<TokenId> ids = vector["ids"];
    EXPECT_EQ(Encoded(*tokenizer, text), ids) << text;
    EXPECT_EQ(tokenizer->Decode(ids, false), text);
  }
}

TEST(DefaultTokenizer, MatchesModelSizeAndEndTokens) {
  const auto tokenizer = LoadFrom("target");
  EXPECT_EQ(tokenizer->vocab_size(), 4096);
  EXPECT_EQ(tokenizer->eos_tokens(), std::vector<TokenId>({4094, 4095}));
  for (const TokenId id : {4093, 4094, 4095}) EXPECT_TRUE(tokenizer->IsSpecial(id)) << id;
  EXPECT_FALSE(tokenizer->IsSpecial(4092));
}

TEST(DefaultTokenizer, IsSameForTargetAndDrafter) {
  EXPECT_EQ(DescribeMismatch(LoadFrom("target")->fingerprint(), LoadFrom("drafter")->fingerprint()),
            "");
}

}  // namespace
}  // namespace outrider
