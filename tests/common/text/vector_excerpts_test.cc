// Published tokenizers, reduced to the tokens and merges that a few texts can use. Ids and texts
// are those of the full tokenizers: a merge whose result does not occur in a text cannot apply to
// it, so omitting it changes nothing.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/common/text/tiny_tokenizers.h"

namespace outrider {
namespace {

class VectorExcerpts : public ::testing::TestWithParam<const char*> {};

TEST_P(VectorExcerpts, EncodeAndDecodeLikeFullTokenizer) {
  std::ifstream in(std::string(OUTRIDER_SOURCE_DIR "/tests/common/text/data/") + GetParam() +
                   ".json");
  const auto file = nlohmann::json::parse(in);
  const auto tokenizer = MakeTokenizer(file["tokenizer"].dump());
  ASSERT_GT(file["vectors"].size(), 20u);
  for (const auto& vector : file["vectors"]) {
    const std::string text = vector["text"];
    const std::vector<TokenId> ids = vector["ids"];
    EXPECT_EQ(Encoded(*tokenizer, text, vector.value("parse_special", false)), ids) << text;
    EXPECT_EQ(tokenizer->Decode(ids, false), vector.value("decoded", text));
  }
}

INSTANTIATE_TEST_SUITE_P(Published, VectorExcerpts,
                         ::testing::Values("gpt2", "llama3", "qwen2", "llama2"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace outrider
