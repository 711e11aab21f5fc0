// An engine over a model that verifies rounds on a device gives the same texts as one that verifies
// them on the host, for the same requests and drafts.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "common/math/coins.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/puppet_draft_source.h"
#include "tests/support/recording_sink.h"
#include "tests/support/sequence_rows.h"
#include "tests/support/tiny_tokenizer.h"
#include "tests/verifier/engine/engine_device.h"
#include "verifier/engine/engine.h"

namespace outrider {
namespace {

using ::testing::AnyOfArray;
using ::testing::Each;
using ::testing::Not;
using testing::RecordingSink;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr FakeModelOptions kModel = {
    .vocab_size = 32, .total_pages = 1024, .max_batch_tokens = 512};

// How many rows' logits were requested.
int RowsOf(const RecordingSink& sink) {
  int rows = 0;
  for (const Chunk& chunk : sink.chunks) rows += 1 + chunk.drafted;
  return rows;
}

std::vector<float> ValuesOf(const RecordingSink& sink) {
  std::vector<float> logprobs;
  for (const TokenLogprobs& l : sink.logprobs) logprobs.push_back(l.logprob);
  return logprobs;
}

class Played {
 public:
  explicit Played(bool on_device) : model(kModel) {
    if (on_device) testing::GiveDevice(model);
  }

  void Run(const std::vector<GenerationRequest>& requests) {
    const auto tokenizer =
        Tokenizer::FromJson(testing::TinyTokenizerJson(testing::kLetters)).value();
    testing::FakeClock clock;
    uint64_t seed = 5000;
    Engine engine({.scheduler = {.token_budget = 512}, .draw_seed = [&seed] { return seed++; }},
                  &model, tokenizer.get(), &source, &metrics, &clock);
    for (size_t i = 0; i < requests.size(); ++i) {
      sinks.push_back(std::make_shared<RecordingSink>(may_fail));
      const Status status = engine.Submit(i, requests[i], sinks.back());
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    while (!engine.idle()) {
      if (engine.Step()) continue;
      for (size_t i = 0; i < requests.size(); ++i) {
        if (sinks[i]->ended || !source.opened.contains(i)) continue;
        const DraftPlan plan = source.plan(i);
        engine.draft_consumer().OnDraft(i, plan.round,
                                        MakeDraft(requests[i], source.opened[i].kind, plan, i),
                                        /*complete=*/true);
      }
    }
  }

  bool may_fail = false;
  FakeModel model;
  testing::PuppetDraftSource source;
  MetricsRegistry registry;
  VerifierMetrics metrics{registry};
  std::vector<std::shared_ptr<RecordingSink>> sinks;

 private:
  // Drafts with a model that is close to the target, cut as a drafter would.
  DraftTree MakeDraft(const GenerationRequest& request, DraftKind kind, const DraftPlan& plan,
                      size_t session) const {
    DraftTree tree;
    std::vector<int> times = {1};
    uint32_t trial = 0;
    for (int node = 0; node <= tree.size(); ++node) {
      const int depth = tree.depth(node);
      if (depth == plan.shape.length) continue;
      std::vector<TokenId> tokens = request.prompt;
      const std::vector<TokenId>& output = sinks[session]->tokens;
      tokens.insert(tokens.end(), output.begin(), output.end());
      const std::vector<TokenId> path = tree.Path(node);
      tokens.insert(tokens.end(), path.begin(), path.end());
      std::vector<float> row = model.Logits(tokens);
      for (size_t i = 0; i < row.size(); ++i) row[i] += static_cast<float>(i % 5) * 0.1f;
      MakeDistribution(SequenceSampling({.temperature = 0.8f}, 32, testing::kLetters), row, {});
      if (kind != DraftKind::kSampled) {
        std::vector<TokenId> best(row.size());
        std::iota(best.begin(), best.end(), 0);
        std::sort(best.begin(), best.end(), [&](TokenId a, TokenId b) {
          return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
        });
        for (int i = 0; i < plan.shape.draws(depth); ++i) {
          tree.AddDraw(node, best[static_cast<size_t>(i)]);
        }
        continue;
      }
      const DraftDistribution distribution =
          MakeDraftDistribution(row, {.mass = 0.95f, .max_entries = 12});
      for (int i = 0; i < times[static_cast<size_t>(node)] * plan.shape.draws(depth); ++i) {
        const double coin = Coin(source.opened.at(session).seed, plan.round,
                                 static_cast<uint32_t>(depth), Purpose::kDraftToken, trial++);
        const auto child =
            static_cast<size_t>(tree.AddDraw(node, SampleDraftDistribution(distribution, coin)));
        times.resize(std::max(times.size(), child + 1));
        ++times[child];
      }
      tree.SetDistribution(node, distribution);
    }
    return tree;
  }
};

// All rules, with and without drafts, with all sampling parameters.
std::vector<GenerationRequest> ManyRequests() {
  constexpr Rule kRules[] = {Rule::kToken,      Rule::kBlock,          Rule::kSpecTr,
                             Rule::kMultiRound, Rule::kMultiPathBlock, Rule::kGumbel};
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 48; ++i) {
    GenerationRequest r{.prompt = {i % 20, 3, i % 7, 3, 5},
                        .sampling = {.temperature = 0.7f + 0.1f * static_cast<float>(i % 5)},
                        .max_tokens = 14,
                        .seed = 1000 + static_cast<uint64_t>(i)};
    if (i % 7 == 0) r.sampling.temperature = 0;
    if (i % 4 == 1) r.sampling.top_k = 6;
    if (i % 5 == 2) r.sampling.top_p = 0.85f;
    if (i % 9 == 4) r.sampling.min_p = 0.05f;
    if (i % 3 == 0) {
      r.sampling.repetition_penalty = 1.2f;
      r.sampling.presence_penalty = 0.4f;
      r.sampling.frequency_penalty = -0.2f;
    }
    // The HTTP front's map cannot contain a token twice, but the protocol's list can.
    if (i % 8 == 3) r.sampling.logit_bias = {{3, 0.75f}, {9, -100.f}, {3, 0.5f}};
    const Rule rule = kRules[i % 6];
    r.speculation = {.enabled = i % 11 != 5, .rule = rule, .draft_length = 1 + i % 4};
    if (TakesManyPaths(rule)) r.speculation.paths = 1 + i % 3;
    if (i % 10 == 4) r.speculation.stop = StopRule{.kind = StopRule::Kind::kHead};
    requests.push_back(r);
  }
  return requests;
}

TEST(EngineOnDevice, MatchesHostTextsWithoutCopyingRows) {
  const std::vector<GenerationRequest> requests = ManyRequests();
  Played host(false), device(true);
  host.Run(requests);
  device.Run(requests);
  int accepted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(device.sinks[i]->tokens, host.sinks[i]->tokens) << i;
    EXPECT_EQ(RowsOf(*device.sinks[i]), RowsOf(*host.sinks[i])) << i;
    accepted += host.sinks[i]->summary.accepted_tokens;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_EQ(device.model.device()->bytes_to_host(), 0);
  EXPECT_GT(device.metrics.rounds_total.value(), 100);
  EXPECT_EQ(device.metrics.device_rounds_total.value(), device.metrics.rounds_total.value());
  EXPECT_EQ(host.metrics.device_rounds_total.value(), 0);

  const VerifierMetrics &h = host.metrics, &d = device.metrics;
  EXPECT_GT(h.spec_decode_multipath_drafts_total.value(), 10);
  EXPECT_EQ(d.spec_decode_multipath_drafts_total.value(),
            h.spec_decode_multipath_drafts_total.value());
  EXPECT_NEAR(d.spec_decode_kseq_acceptance_total.value(),
              h.spec_decode_kseq_acceptance_total.value(), 1e-3);
  EXPECT_NEAR(d.spec_decode_optimal_acceptance_total.value(),
              h.spec_decode_optimal_acceptance_total.value(), 1e-3);
}

// The host reports the nodes whose rows the rule visited, the device all of them.
TEST(EngineOnDevice, MatchesHostAcceptanceLabels) {
  std::vector<GenerationRequest> requests = ManyRequests();
  for (GenerationRequest& r : requests)
    r.seed.reset();  // a head learns nothing from seeded requests
  Played host(false), device(true);
  host.Run(requests);
  device.Run(requests);
  int told = 0;
  for (const auto& [session, decisions] : host.source.decided) {
    const auto& others = device.source.decided[session];
    ASSERT_EQ(others.size(), decisions.size());
    for (size_t i = 0; i < decisions.size(); ++i) {
      EXPECT_TRUE(others[i].acceptance.starts_with(decisions[i].acceptance)) << session;
      told += !decisions[i].acceptance.empty();
    }
  }
  EXPECT_GT(told, 5);
}

// Only that session's rows, which are among those of the others.
TEST(EngineOnDevice, CopiesRowsForLogprobs) {
  std::vector<GenerationRequest> requests = ManyRequests();
  std::vector<size_t> asked = {1, 2, 3, 20, 46, 47};
  for (const size_t i : asked) requests[i].logprobs = 2;
  Played host(false), device(true);
  host.Run(requests);
  device.Run(requests);
  int rows = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(device.sinks[i]->tokens, host.sinks[i]->tokens) << i;
    EXPECT_EQ(ValuesOf(*device.sinks[i]), ValuesOf(*host.sinks[i])) << i;
  }
  for (const size_t i : asked) {
    EXPECT_EQ(device.sinks[i]->logprobs.size(), 14u);
    rows += RowsOf(*device.sinks[i]);
  }
  const double bytes = rows * 32 * static_cast<double>(sizeof(float));
  EXPECT_EQ(static_cast<double>(device.model.device()->bytes_to_host()), bytes);
  EXPECT_EQ(device.metrics.device_to_host_bytes_total.value(), bytes);
  EXPECT_LT(device.metrics.device_rounds_total.value(), device.metrics.rounds_total.value());
}

// The mask ends within a draft: some of its rows allow the stop tokens again, others do not.
TEST(EngineOnDevice, MinTokensMatchTheHost) {
  std::vector<GenerationRequest> requests = ManyRequests();
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].stop_tokens = {static_cast<TokenId>(i % 20), 7, 11};
    requests[i].min_tokens = 3 + static_cast<int>(i % 6);
  }
  Played host(false), device(true);
  host.Run(requests);
  device.Run(requests);
  int stopped = 0, accepted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(device.sinks[i]->tokens, host.sinks[i]->tokens) << i;
    const auto min_tokens = static_cast<size_t>(requests[i].min_tokens);
    ASSERT_GE(device.sinks[i]->tokens.size(), min_tokens) << i;
    EXPECT_THAT(std::span(device.sinks[i]->tokens).first(min_tokens),
                Each(Not(AnyOfArray(requests[i].stop_tokens))))
        << i;
    stopped += host.sinks[i]->tokens.size() < 14 ? 1 : 0;
    accepted += host.sinks[i]->summary.accepted_tokens;
  }
  EXPECT_GT(stopped, 5);
  EXPECT_GT(accepted, 50);
  EXPECT_EQ(device.model.device()->bytes_to_host(), 0) << "such rounds stay on the device, too";
}

TEST(EngineOnDevice, CountsGraphPassesOnce) {
  Played device(true);
  device.model.set_graph_counts({.launches = 7, .captures = 2});
  device.Run(ManyRequests());
  EXPECT_EQ(device.metrics.device_graph_launches_total.value(), 7);
  EXPECT_EQ(device.metrics.device_graph_captures_total.value(), 2);
}

// A broken model ends requests, each at the same row and with the same text before it on both
// sides.
TEST(EngineOnDevice, BrokenRowsMatchTheHost) {
  const std::vector<GenerationRequest> requests = ManyRequests();
  Played host(false), device(true);
  for (Played* played : {&host, &device}) {
    played->may_fail = true;
    // Depends on the row's contents, since both engines must see the same.
    played->model.set_on_row([](std::span<float> row) {
      const int kind = static_cast<int>(row[0] * 1000) % 64;
      if (kind == 0) std::fill(row.begin(), row.end(), kNan);
      if (kind == 1) std::fill(row.begin(), row.end(), -kInf);
      if (kind == 2) row[4] = row[6] = kInf;
      if (kind == 3) row[5] = kNan;
    });
    played->Run(requests);
  }
  int failed = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(device.sinks[i]->tokens, host.sinks[i]->tokens) << i;
    EXPECT_EQ(device.sinks[i]->status.ToString(), host.sinks[i]->status.ToString()) << i;
    failed += host.sinks[i]->status.ok() ? 0 : 1;
  }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace outrider
