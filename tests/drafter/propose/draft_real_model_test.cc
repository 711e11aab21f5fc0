// The drafting loop over a real model: after any verdict its KV equals that of a session opened at
// that position, and its page count agrees with the model's.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

#include "drafter/propose/draft_loop.h"
#include "tests/common/model/model_testing.h"
#include "tests/drafter/propose/session_opening.h"
#include "tests/support/puppet_verifier_link.h"

namespace outrider {
namespace {

constexpr int kVocab = 64;
const DraftShape kOneToken{.length = 1, .branching = {}};

class DraftRealModel : public ::testing::Test {
 protected:
  void SetUp() override {
    ModelOptions options = kExactOptions;
    options.page_tokens = 4;
    model_ = MakeModel({.vocab_size = kVocab, .eos_token_ids = {}}, options);
    ASSERT_NE(model_, nullptr);
    Start({.chunk_depths = 2});
  }

  void Start(const DraftLoopOptions& options) {
    loop_.reset();
    loop_ = std::make_unique<DraftLoop>(model_.get(), options, &clock_, nullptr);
    link_ = std::make_shared<PuppetVerifierLink>();
    Push(WelcomeEvent{.link = link_, .welcome = {.vocab_limit = kVocab}});
  }

  void Push(LinkMessage message) { ASSERT_TRUE(loop_->Push({1, std::move(message)})); }

  // Runs `steps` steps, or until idle. Returns the part of the draft that was sent.
  DraftTree Drafted(int steps = 1000) {
    while (steps-- > 0 && loop_->Step()) continue;
    DraftTree tree;
    for (DraftPart& draft : link_->TakeDrafts()) {
      EXPECT_TRUE(tree.Append(std::move(draft.chunk)).ok());
    }
    return tree;
  }

  // Weights differ only by rounding: another batch sums in another order.
  static void ExpectSameDistribution(const DraftDistribution& actual,
                                     const DraftDistribution& expected) {
    std::map<TokenId, int> difference;
    for (size_t i = 0; i < actual.ids.size(); ++i) {
      difference[actual.ids[i]] += static_cast<int>(actual.weights[i]);
    }
    for (size_t i = 0; i < expected.ids.size(); ++i) {
      difference[expected.ids[i]] -= static_cast<int>(expected.weights[i]);
    }
    for (const auto& [token, weight] : difference) EXPECT_LE(std::abs(weight), 8) << token;
  }

  SteadyClock clock_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<DraftLoop> loop_;
  std::shared_ptr<PuppetVerifierLink> link_;
};

TEST_F(DraftRealModel, DraftsMatchFreshSession) {
  const DraftShape shape{.length = 4, .branching = {3, 2}};
  int verdicts = 0;
  for (int prompt = 3; prompt <= 6; ++prompt) {  // forks at every position within a page
    for (const int steps : {2, 3, 1000}) {       // in the middle of a draft, and after it
      for (int node = 0;; node += 3) {
        std::vector<TokenId> tokens = RandomTokens(prompt, kVocab, static_cast<uint64_t>(prompt));
        Push(Opening(1, shape, tokens));
        const DraftTree draft = Drafted(steps);
        ASSERT_FALSE(draft.empty());
        if (node > draft.size()) break;
        Push(std::vector<SessionVerdict>{{.session = 1,
                                          .round = 1,
                                          .node = node,
                                          .next = {7},
                                          .plan = {.round = 2, .shape = kOneToken}}});
        const DraftTree mirrored = Drafted();
        const std::vector<TokenId> path = draft.Path(node);
        tokens.insert(tokens.end(), path.begin(), path.end());
        tokens.push_back(7);
        Push(Opening(2, kOneToken, tokens));
        ExpectSameDistribution(mirrored.distribution(DraftTree::kRoot),
                               Drafted().distribution(DraftTree::kRoot));
        ASSERT_FALSE(HasFailure()) << "prompt " << prompt << " steps " << steps << " node " << node;
        Push(CloseEvent{1});
        Push(CloseEvent{2});
        (void)Drafted();
        ASSERT_EQ(model_->free_pages(), model_->total_pages());
        ++verdicts;
      }
    }
  }
  EXPECT_GT(verdicts, 30);
}

// If the KV of a text's beginning is cached, drafts have the same bits as without.
TEST_F(DraftRealModel, DraftsMatchOnCachedPrefixes) {
  const DraftShape shape{.length = 4, .branching = {2}};
  std::vector<std::vector<TokenId>> texts;
  for (int length = 9; length <= 30; length += 3) {
    texts.push_back(RandomTokens(30, kVocab, 5));
    texts.back().resize(static_cast<size_t>(length), 0);
    texts.back().push_back(1);
  }
  std::vector<std::vector<DraftTree>> drafts;
  for (const bool kept : {false, true}) {
    Start({.prefix_cache = kept});
    std::vector<DraftTree>& loop_drafts = drafts.emplace_back();
    for (size_t i = 0; i < texts.size(); ++i) {
      Push(Opening(i, shape, texts[i]));
      loop_drafts.push_back(Drafted());
      Push(CloseEvent{i});
    }
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const DraftTree& plain = drafts[0][i];
    const DraftTree& kept = drafts[1][i];
    ASSERT_EQ(kept.size(), plain.size());
    for (int node = 0; node <= plain.size(); ++node) {
      EXPECT_EQ(kept.token(node), plain.token(node));
      EXPECT_EQ(kept.distribution(node).ids, plain.distribution(node).ids) << i;
      EXPECT_EQ(kept.distribution(node).weights, plain.distribution(node).weights) << i;
    }
  }
  loop_.reset();
  EXPECT_EQ(model_->free_pages(), model_->total_pages());
}

}  // namespace
}  // namespace outrider
