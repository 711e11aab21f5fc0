// The copying model repeats edited functions with changed names, from a distribution that is not
// one-hot.
#include "tests/support/copying_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/text/tokenizer.h"
#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

constexpr ModelOptions kServed = {.kv_pages = 64, .max_batch_tokens = 512};
const CopyingOptions kEdits = {
    .renames = {{"line", "msg"}, {"items", "values"}, {"key", "pos"}, {"number", "count"}}};

struct Edit {
  std::string prompt, expected;
  int max_tokens = 0;
};

std::vector<Edit> Edits() {
  std::vector<Edit> edits;
  std::ifstream in(OUTRIDER_SOURCE_DIR "/tests/bench/edit_prompts.jsonl");
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json edit = nlohmann::json::parse(line);
    edits.push_back({edit.at("prompt"), edit.at("expected"), edit.at("max_tokens")});
  }
  return edits;
}

class CopyingCheckpoint : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::filesystem::path source = OUTRIDER_SOURCE_DIR "/models/default/target";
    const TempDirectory directory;
    const Status made = MakeCopyingCheckpoint(directory.path(), source, kEdits);
    ASSERT_TRUE(made.ok()) << made.ToString();
    model_ = LoadTestModel(directory.path(), kServed).release();
    tokenizer_ = Tokenizer::Load(directory.path()).value().release();
  }
  static void TearDownTestSuite() {
    delete std::exchange(model_, nullptr);
    delete std::exchange(tokenizer_, nullptr);
  }
  void SetUp() override { ASSERT_TRUE(model_ != nullptr && tokenizer_ != nullptr); }

  static std::vector<TokenId> Encode(const std::string& text) {
    std::vector<TokenId> tokens = tokenizer_->prompt_prefix();
    const std::vector<TokenId> ids = tokenizer_->Encode(text, false).value();
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    return tokens;
  }

  static inline Model* model_ = nullptr;
  static inline Tokenizer* tokenizer_ = nullptr;
};

TokenId Argmax(const std::vector<float>& row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

double Probability(const std::vector<float>& row, TokenId token) {
  const double top = row[static_cast<size_t>(token)];
  double sum = 0;
  for (const float logit : row) sum += std::exp(logit - top);
  return 1 / sum;
}

// Three lines of one prompt have a common beginning longer than the model's context: it may err
// there.
TEST_F(CopyingCheckpoint, GreedyTextRenamesTheFunction) {
  ptrdiff_t bytes = 0, right = 0;
  double chance = 0;
  int tokens = 0;
  const std::vector<Edit> edits = Edits();
  ASSERT_EQ(edits.size(), 16u);
  for (const Edit& edit : edits) {
    const SequenceId sequence = model_->NewSequence();
    std::vector<TokenId> next = Encode(edit.prompt), out;
    for (int i = 0; i < edit.max_tokens; ++i) {
      const std::vector<float> row = Extend(*model_, sequence, next).back();
      next = {Argmax(row)};
      out.push_back(next[0]);
      chance += Probability(row, next[0]);
    }
    model_->Release(sequence);
    const std::string text = tokenizer_->Decode(out, false);
    const std::string& expected = edit.expected;
    const auto [end, unused] =
        std::mismatch(text.begin(), text.end(), expected.begin(), expected.end());
    bytes += static_cast<ptrdiff_t>(expected.size());
    right += end - text.begin();
    tokens += edit.max_tokens;
  }
  EXPECT_GT(right, bytes * 95 / 100) << "of " << bytes << ", up to each text's first error";
  // When sampling, about one token in ten differs.
  EXPECT_GT(chance / tokens, 0.8);
  EXPECT_LT(chance / tokens, 0.97);
}

TEST_F(CopyingCheckpoint, IsUniformWithoutAnythingToCopy) {
  std::vector<TokenId> tokens = RandomTokens(100, tokenizer_->vocab_size() - 1, 5);
  tokens.insert(tokens.begin(), tokenizer_->prompt_prefix()[0]);
  // The first tokens have short contexts, which include the token next to a missing position.
  const Rows rows = RunFresh(*model_, tokens);
  for (size_t i = 20; i < rows.size(); ++i) {
    EXPECT_LT(Probability(rows[i], Argmax(rows[i])), 0.3) << i;
  }
}

TEST(CopyingCheckpointOptions, RefuseRenameWithoutToken) {
  const TempDirectory directory;
  for (const auto& rename : {std::pair("nosuchword", "text"), std::pair("text", "nosuchword")}) {
    const Status made = MakeCopyingCheckpoint(
        directory.path(), OUTRIDER_SOURCE_DIR "/models/default/target", {.renames = {rename}});
    EXPECT_EQ(made.code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace outrider
