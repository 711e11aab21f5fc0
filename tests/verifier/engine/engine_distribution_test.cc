// The engine's output distribution: whatever drafts arrive, or none, finished texts have the
// distribution of the model alone. Penalties and stops are on, so that the engine's work around a
// rule (rows of pending tokens, the end of a text, the count of rounds) is covered.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/math/coins.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/puppet_draft_source.h"
#include "tests/support/recording_sink.h"
#include "tests/support/sequence_rows.h"
#include "tests/support/statistics.h"
#include "tests/support/tiny_tokenizer.h"
#include "tests/verifier/engine/engine_device.h"
#include "verifier/engine/engine.h"

namespace outrider {
namespace {

constexpr int kVocab = 4;
constexpr int kMaxTokens = 4;
constexpr TokenId kStop = 3;
constexpr int kPages = 24;  // of one token: a text and its largest draft
constexpr int kMostSteps = 100;

using testing::RecordingSink;
using Tokens = std::vector<TokenId>;

// The texts of a grammar. "c" has only one continuation, and so do others at their ends, so that
// the verifier drafts forced tokens, too.
const std::vector<Tokens> kGrammarTexts = {{0, 1}, {0, 2}, {0, 0, 1}, {0, 2, 0},
                                           {1},    {1, 0}, {1, 2, 0}, {2, 2, 0, 1}};

// When a planned draft arrives.
enum class Drafts { kNever, kAlways, kEveryOther };

class EngineDistribution : public ::testing::Test {
 protected:
  EngineDistribution() { testing::GiveDevice(model_); }

  GenerationRequest Request(uint64_t seed, Rule rule) {
    GenerationRequest request{.prompt = {0, 1},
                              .sampling = {.repetition_penalty = 1.4f,
                                           .presence_penalty = 0.8f,
                                           .allowed_tokens = allowed_tokens_,
                                           .bad_words = bad_words_},
                              .max_tokens = kMaxTokens,
                              .min_tokens = min_tokens_,
                              .stop_strings = {"cb"},
                              .stop_tokens = {kStop},
                              .seed = seed};
    request.speculation = {.rule = rule, .draft_length = 3, .paths = TakesManyPaths(rule) ? 2 : 1};
    if (!texts_.empty()) {
      GrammarSource source{.kind = GrammarSource::Kind::kChoice};
      for (const Tokens& text : texts_) source.choices.push_back(Letters(text));
      request.sampling.grammar = std::move(source);
      EXPECT_TRUE(CompileGrammar(grammars_.get(), &request).ok());
    }
    return request;
  }

  static std::unique_ptr<grammar::GrammarCache> GrammarsWithin(
      const grammar::GrammarMasks::Limits& limits) {
    auto tokens = grammar::TokenTable::Create(std::vector<std::string_view>{"a", "b", "c", ""},
                                              {{kStop}}, kVocab);
    return std::make_unique<grammar::GrammarCache>(std::move(tokens).value(),
                                                   grammar::GrammarCache::Limits{.masks = limits});
  }

  static std::string Letters(const Tokens& tokens) {
    std::string letters;
    for (const TokenId token : tokens) letters += static_cast<char>('a' + token);
    return letters;
  }

  // Whether a mask excludes `token` after `output`, according to its definition.
  bool IsMasked(const Tokens& output, TokenId token) const {
    if (token == kStop && std::cmp_less(output.size(), min_tokens_)) return true;
    if (!texts_.empty() && !IsOfATextThatFollows(output, token)) return true;
    if (!allowed_tokens_.empty() &&
        std::find(allowed_tokens_.begin(), allowed_tokens_.end(), token) == allowed_tokens_.end()) {
      return true;
    }
    Tokens text = output;
    text.push_back(token);
    return std::any_of(bad_words_.begin(), bad_words_.end(), [&](const Tokens& word) {
      return word.size() <= text.size() && std::equal(word.rbegin(), word.rend(), text.rbegin());
    });
  }

  bool IsOfATextThatFollows(const Tokens& output, TokenId token) const {
    return std::any_of(texts_.begin(), texts_.end(), [&](const Tokens& text) {
      if (token == kStop) return text == output;
      return text.size() > output.size() && text[output.size()] == token &&
             std::equal(output.begin(), output.end(), text.begin());
    });
  }

  // The distribution of `model` after prompt and output, `masked` or not.
  std::vector<float> RowOf(const FakeModel& model, const Tokens& output, bool masked) {
    GenerationRequest request = Request(0, Rule::kBlock);
    request.sampling.allowed_tokens = {};
    request.sampling.bad_words = {};
    SequenceSampling sampling(request.sampling, kVocab, kVocab);
    sampling.ObservePrompt(request.prompt);
    for (const TokenId token : output) sampling.ObserveOutput(token);
    Tokens tokens = request.prompt;
    tokens.insert(tokens.end(), output.begin(), output.end());
    std::vector<float> row = model.Logits(tokens);
    for (TokenId token = 0; token < kVocab && masked; ++token) {
      if (IsMasked(output, token)) {
        row[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
      }
    }
    MakeDistribution(sampling, row, {});
    return row;
  }

  // By length, by the stop token, or by "cb", which is tokens 2 and 1; the latter two only after
  // `min_tokens_`.
  bool IsFinished(const Tokens& output) const {
    const size_t n = output.size();
    if (n == kMaxTokens) return true;
    if (std::cmp_less_equal(n, min_tokens_)) return false;
    return output[n - 1] == kStop || (n > 1 && output[n - 2] == 2 && output[n - 1] == 1);
  }

  // Pr(text) for every text that can be finished.
  void AddTexts(const Tokens& output, double probability, std::map<Tokens, double>& texts) {
    if (IsFinished(output)) {
      texts[output] = probability;
      return;
    }
    const std::vector<float>& row = TargetRow(output);
    for (TokenId x = 0; x < kVocab; ++x) {
      if (row[static_cast<size_t>(x)] == 0.f) continue;
      Tokens longer = output;
      longer.push_back(x);
      AddTexts(longer, probability * static_cast<double>(row[static_cast<size_t>(x)]), texts);
    }
  }

  const std::vector<float>& TargetRow(const Tokens& output) {
    return Cached(target_rows_, model_, output, /*masked=*/true);
  }
  // The row of a drafter that may not know the masks.
  const std::vector<float>& DraftRow(const Tokens& output) {
    return Cached(draft_rows_, drafter_, output, drafter_masks_);
  }

  const std::vector<float>& Cached(std::map<Tokens, std::vector<float>>& rows,
                                   const FakeModel& model, const Tokens& output, bool masked) {
    auto [it, is_new] = rows.try_emplace(output);
    if (is_new) it->second = RowOf(model, output, masked);
    return it->second;
  }

  DraftTree MakeDraft(const DraftPlan& plan, uint64_t seed, const Tokens& output) {
    DraftTree tree;
    std::vector<int> times = {1};
    uint32_t trials[kMaxTokens] = {};
    for (int node = 0; node <= tree.size(); ++node) {
      const int depth = tree.depth(node);
      if (depth == plan.shape.length) continue;
      Tokens tokens = output;
      const Tokens path = tree.Path(node);
      tokens.insert(tokens.end(), path.begin(), path.end());
      // After the end of a text of the grammar there is nothing to draft.
      if (drafter_masks_ && !tokens.empty() && tokens.back() == kStop) continue;
      const DraftDistribution distribution = MakeDraftDistribution(DraftRow(tokens), {.mass = 1.f});
      for (int i = 0; i < times[static_cast<size_t>(node)] * plan.shape.draws(depth); ++i) {
        const double coin = Coin(seed, plan.round, static_cast<uint32_t>(depth),
                                 Purpose::kDraftToken, trials[depth]++);
        const auto child =
            static_cast<size_t>(tree.AddDraw(node, SampleDraftDistribution(distribution, coin)));
        times.resize(std::max(times.size(), child + 1));
        ++times[child];
      }
      tree.SetDistribution(node, distribution);
    }
    return tree;
  }

  // Whether session `id` waits for a draft of another round than the last one.
  static bool IsAsked(const testing::PuppetDraftSource& source, uint64_t id, uint32_t last_round) {
    return source.opened.contains(id) && source.plan(id).round != last_round;
  }

  // An older sequence, which leaves room for the first round of session `id` with a draft of three
  // tokens, or for the second one, too, and then takes the pages one after another.
  static constexpr int kPagesOfARound = 5;
  void Crowd(Engine& engine, uint64_t id) {
    const int prompt = kPages - kPagesOfARound - 1 - static_cast<int>(id / 2 % 2);
    GenerationRequest older{.prompt = Tokens(static_cast<size_t>(prompt), 0),
                            .sampling = {.temperature = 0},
                            .max_tokens = kPages - prompt};
    older.speculation.enabled = false;
    ASSERT_TRUE(
        engine.Submit(id - 1, older, std::make_shared<RecordingSink>(/*may_fail=*/false)).ok());
  }

  // Generates the text of session `id`, whose drafts arrive according to `drafts`.
  void Generate(Engine& engine, testing::PuppetDraftSource& source, uint64_t id,
                const GenerationRequest& request, Drafts drafts, Tokens* text) {
    const auto sink = std::make_shared<RecordingSink>(/*may_fail=*/false);
    if (is_crowded_) Crowd(engine, id);
    ASSERT_TRUE(engine.Submit(id, request, sink).ok());
    uint32_t answered = 0;
    for (int steps = 0; !sink->ended; ++steps) {
      ASSERT_LT(steps, kMostSteps) << "the text does not end";
      source.accepts =
          drafts == Drafts::kAlways || (drafts == Drafts::kEveryOther && steps % 2 == 0);
      const int64_t preempted = metrics_.num_preemptions_total.value();
      const bool stepped = engine.Step();
      if (metrics_.num_preemptions_total.value() > preempted && !sink->tokens.empty()) {
        ++preempted_texts_;
      }
      // Next to another sequence the steps continue while it waits for its draft.
      if (is_crowded_ ? !IsAsked(source, id, answered) : stepped) continue;
      const DraftPlan plan = source.plan(id);
      answered = plan.round;
      if (source.accepts) {
        engine.draft_consumer().OnDraft(id, plan.round,
                                        MakeDraft(plan, *request.seed, sink->tokens),
                                        /*complete=*/true);
      } else {
        engine.draft_consumer().OnDrafterLost(id);
      }
    }
    while (is_crowded_ && engine.Step()) {  // the older one ends
    }
    *text = sink->tokens;
  }

  void ExpectDistributionOfTheModel(Rule rule, Drafts drafts) {
    const auto tokenizer = Tokenizer::FromJson(testing::TinyTokenizerJson(kVocab)).value();
    testing::PuppetDraftSource source;
    testing::FakeClock clock;
    Engine engine({.admission = {.prefix_cache = !is_crowded_}}, &model_, tokenizer.get(), &source,
                  &metrics_, &clock);
    std::map<Tokens, int64_t> counts;
    for (uint64_t i = 1; i <= testing::GenerationsOfADistribution(); ++i) {
      Tokens text;
      Generate(engine, source, 2 * i, Request(1000003 * i, rule), drafts, &text);
      if (HasFailure()) return;  // each following text would fail, too
      ++counts[text];
    }
    std::map<Tokens, double> texts;
    AddTexts({}, 1, texts);
    std::vector<double> distribution;
    std::vector<int64_t> seen;
    for (const auto& [text, probability] : texts) {
      distribution.push_back(probability);
      seen.push_back(counts[text]);
    }
    EXPECT_EQ(counts.size(), texts.size()) << "a text that does not end where it should";
    EXPECT_GT(testing::ChiSquarePValue(seen, distribution), testing::kFalseAlarm)
        << RuleName(rule) << ", drafts " << static_cast<int>(drafts);
  }

  bool is_crowded_ = false;  // by an older sequence next to each text
  uint64_t preempted_texts_ = 0;
  int min_tokens_ = 0;
  Tokens allowed_tokens_;
  std::vector<Tokens> bad_words_;
  std::vector<Tokens> texts_;  // which the output follows; empty: any
  bool drafter_masks_ = false;
  std::unique_ptr<grammar::GrammarCache> grammars_ = GrammarsWithin({});
  MetricsRegistry registry_;
  VerifierMetrics metrics_{registry_};
  FakeModel model_{
      {.seed = 1, .vocab_size = kVocab, .sharpness = 2.f, .page_tokens = 1, .total_pages = kPages}};
  FakeModel drafter_{{.seed = 2, .vocab_size = kVocab, .sharpness = 2.f}};
  std::map<Tokens, std::vector<float>> target_rows_, draft_rows_;
};

TEST_F(EngineDistribution, HoldsWithoutDrafts) {
  ExpectDistributionOfTheModel(Rule::kBlock, Drafts::kNever);
}

TEST_F(EngineDistribution, HoldsWithDrafts) {
  for (const Rule rule : {Rule::kToken, Rule::kBlock, Rule::kMultiPathBlock}) {
    ExpectDistributionOfTheModel(rule, Drafts::kAlways);
  }
}

TEST_F(EngineDistribution, HoldsWithDraftsInSomeRounds) {
  ExpectDistributionOfTheModel(Rule::kBlock, Drafts::kEveryOther);
  ExpectDistributionOfTheModel(Rule::kSpecTr, Drafts::kEveryOther);
}

// Stop tokens are masked by a row's own position in the output: drafts of three tokens cross the
// position where the mask ends.
TEST_F(EngineDistribution, HoldsUnderMinTokens) {
  min_tokens_ = 2;
  ExpectDistributionOfTheModel(Rule::kBlock, Drafts::kNever);
  for (const Rule rule : {Rule::kToken, Rule::kBlock, Rule::kMultiPathBlock, Rule::kGumbel}) {
    ExpectDistributionOfTheModel(rule, Drafts::kAlways);
  }
}

// Bad words of two and three tokens begin in the output and end in the draft, or are entirely in
// it.
TEST_F(EngineDistribution, HoldsUnderMasks) {
  allowed_tokens_ = {0, 1, 2};
  bad_words_ = {{0, 2}, {2, 0, 1}, {1, 1}};
  ExpectDistributionOfTheModel(Rule::kBlock, Drafts::kNever);
  for (const Rule rule : {Rule::kToken, Rule::kBlock, Rule::kMultiPathBlock, Rule::kGumbel}) {
    ExpectDistributionOfTheModel(rule, Drafts::kAlways);
  }
}

// Each node of a draft has its own mask.
TEST_F(EngineDistribution, HoldsUnderGrammars) {
  texts_ = kGrammarTexts;
  ExpectDistributionOfTheModel(Rule::kBlock, Drafts::kNever);
  for (const Rule rule : {Rule::kToken, Rule::kBlock, Rule::kMultiPathBlock, Rule::kGumbel}) {
    ExpectDistributionOfTheModel(rule, Drafts::kAlways);
  }
}

// Drafts end when the step budget of their masks does: here after the first nodes.
TEST_F(EngineDistribution, DraftsThatMasksCutAreLossless) {
  texts_ = kGrammarTexts;
  for (const int64_t steps : {1, 8}) {
    grammars_ = GrammarsWithin({.round_steps = steps});
    for (const Rule rule : {Rule::kBlock, Rule::kSpecTr, Rule::kMultiPathBlock, Rule::kGumbel}) {
      ExpectDistributionOfTheModel(rule, Drafts::kAlways);
    }
  }
}

TEST_F(EngineDistribution, GrammarsThatDraftersKnowAreLossless) {
  texts_ = kGrammarTexts;
  drafter_masks_ = true;
  for (const Rule rule : {Rule::kToken, Rule::kBlock, Rule::kSpecTr, Rule::kMultiPathBlock}) {
    ExpectDistributionOfTheModel(rule, Drafts::kAlways);
  }
  ExpectDistributionOfTheModel(Rule::kBlock, Drafts::kEveryOther);
}

// A sequence's text, grammar state and round counter survive the loss of its pages.
TEST_F(EngineDistribution, GrammarsOfPreemptedTextsAreLossless) {
  texts_ = kGrammarTexts;
  is_crowded_ = true;
  for (const Rule rule : {Rule::kToken, Rule::kBlock}) {
    preempted_texts_ = 0;
    ExpectDistributionOfTheModel(rule, Drafts::kAlways);
    EXPECT_GT(preempted_texts_, testing::GenerationsOfADistribution() / 16) << RuleName(rule);
  }
}

}  // namespace
}  // namespace outrider
