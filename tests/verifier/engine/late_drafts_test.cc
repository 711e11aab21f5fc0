// The cost of late drafts to a request: the engine with the pool's own timeouts, a scripted
// drafter, and a clock that only forward passes (1 ms each) and waiting advance.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/recording_sink.h"
#include "tests/support/tiny_tokenizer.h"
#include "verifier/engine/engine.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {
namespace {

using testing::FakeClock;
using testing::RecordingSink;

constexpr Duration kStep = std::chrono::milliseconds(1);

// A message from the drafter: part of a draft, or without tokens a load report.
struct Answer {
  uint64_t session = 0;
  uint32_t round = 0;
  DraftChunk chunk;
};

// A drafter that answers each plan according to `play`.
class PlayedDrafter final : public DrafterLink {
 public:
  struct Asked {
    uint64_t session;
    DraftPlan plan;
    DraftKind kind;
  };
  // What it sends after which delay; nullopt: nothing.
  using Play = std::function<std::optional<std::pair<Duration, DraftChunk>>(const Asked&)>;

  PlayedDrafter(const Clock* clock, Play play) : clock_(clock), play_(std::move(play)) {}

  void SendVocabulary(const VocabularyEntries&) override {}
  void SendWelcome(const DrafterWelcome&) override {}
  void SendDemand(const DrafterDemand&) override {}
  void SendOpen(SessionOpening opening) override {
    kinds_[opening.session] = opening.kind;
    Ask(opening.session, opening.plan);
  }
  void SendVerdicts(std::vector<SessionVerdict> decisions) override {
    for (const SessionVerdict& d : decisions) Ask(d.session, d.plan);
  }
  void SendClose(uint64_t) override {}
  void SendDrain() override {}
  void Close(const Status& reason) override { ADD_FAILURE() << reason.ToString(); }

  int plans() const { return plans_; }
  // The time of its next message.
  std::optional<Time> next() const {
    return answers_.empty() ? std::nullopt : std::optional(answers_.begin()->first);
  }
  void Speak(DrafterPool& pool, uint64_t id) {
    while (!answers_.empty() && answers_.begin()->first <= clock_->Now()) {
      Answer answer = std::move(answers_.begin()->second);
      answers_.erase(answers_.begin());
      if (answer.chunk.tokens.empty()) {
        pool.roster().OnLoad(id, {.sessions = 1});
      } else {
        pool.OnDrafts(id, {{answer.session, answer.round, std::move(answer.chunk)}}, 0);
      }
    }
  }

 private:
  void Ask(uint64_t session, const DraftPlan& plan) {
    ++plans_;
    if (auto played = play_({session, plan, kinds_[session]}); played.has_value()) {
      answers_.emplace(clock_->Now() + played->first,
                       Answer{session, plan.round, std::move(played->second)});
    }
  }

  const Clock* clock_;
  Play play_;
  int plans_ = 0;
  std::map<uint64_t, DraftKind> kinds_;
  std::multimap<Time, Answer> answers_;
};

// `tokens` tokens of a draft, of which hardly any is accepted.
DraftChunk Tokens(int tokens, DraftKind kind, bool more) {
  DraftChunk chunk{.tokens = std::vector<TokenId>(static_cast<size_t>(tokens), 3), .more = more};
  if (kind == DraftKind::kSampled) {
    chunk.distributions.assign(chunk.tokens.size(), {.ids = {3}, .weights = {kDraftWeightTotal}});
  }
  return chunk;
}

PlayedDrafter::Play Whole(Duration after) {
  return [after](const PlayedDrafter::Asked& asked) {
    return std::pair(after, Tokens(asked.plan.shape.length, asked.kind, false));
  };
}

// Sends the first part of every draft and never the rest.
std::optional<std::pair<Duration, DraftChunk>> FirstPart(const PlayedDrafter::Asked& asked) {
  return std::pair(kStep, Tokens(1, asked.kind, /*more=*/true));
}

struct Way {
  const char* name;
  const char* policy;  // "": fixed plans
  bool seeded;         // with a rule under which drafts affect the text
};

class LateDraftsTest : public ::testing::TestWithParam<Way> {
 protected:
  LateDraftsTest() {
    model_.set_on_forward([this](int) { clock_.Advance(kStep); });
    EngineOptions options{.admission = {.prefix_cache = false}};
    if (*GetParam().policy != '\0') {
      options.planner = PlannerOptions{.control = {.policy = GetParam().policy}};
      options.planner->max_paths = 1;
      options.planner->local = {.lookup = {.max_tokens = 0}, .suffix_max_tokens = 0};
    }
    engine_ =
        std::make_unique<Engine>(options, &model_, tokenizer_.get(), &pool_, nullptr, &clock_);
    pool_.set_consumer(&engine_->draft_consumer());
  }

  void Join(PlayedDrafter::Play play) {
    drafter_ = std::make_shared<PlayedDrafter>(&clock_, std::move(play));
    const Status status = pool_.roster().Join(1,
                                              {.name = "played",
                                               .model = "small",
                                               .tokenizer = tokenizer_->fingerprint(),
                                               .vocab_size = 32,
                                               .max_sessions = 64,
                                               .max_draft_length = 8,
                                               .max_draft_tokens = 64,
                                               .max_context = 1024},
                                              drafter_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  // Serves requests of 100 tokens each, one after another. Returns the time that they waited.
  double Serve(int requests) {
    Duration waited{};
    for (int i = 0; i < requests; ++i) {
      GenerationRequest request{.prompt = {1, 2, 3, 4, 5, 6},
                                .sampling = {.temperature = 1},
                                .max_tokens = 100,
                                .ignore_eos = true};
      request.speculation.rule = GetParam().seeded ? std::optional(Rule::kToken) : std::nullopt;
      if (GetParam().seeded) request.seed = 7;
      const auto sink = std::make_shared<RecordingSink>(/*may_fail=*/false);
      EXPECT_TRUE(engine_->Submit(++id_, request, sink).ok());
      while (!sink->ended) {
        drafter_->Speak(pool_, 1);
        if (engine_->Step()) continue;
        const Time next = std::min(engine_->NextDeadline().value_or(Time::max()),
                                   drafter_->next().value_or(Time::max()));
        if (next == Time::max()) {
          ADD_FAILURE() << "nothing to wait for";
          return 0;
        }
        waited += std::max(next - clock_.Now(), Duration::zero());
        clock_.Advance(std::max(next - clock_.Now(), Duration::zero()));
      }
    }
    return Seconds(waited);
  }

  FakeClock clock_;
  FakeModel model_{{.vocab_size = 32}};
  std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::FromJson(testing::TinyTokenizerJson(testing::kLetters)).value();
  DrafterPool pool_{{.model = "large", .tokenizer = tokenizer_->fingerprint(), .vocab_size = 32},
                    {.mass = 0.999f, .max_entries = 32},
                    nullptr,
                    &clock_};
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<PlayedDrafter> drafter_;
  uint64_t id_ = 0;
};

// At most a fortieth of the time (50 requests take 5 s), plus, for a seeded request, 0.25 s before
// the first step is measured.
TEST_P(LateDraftsTest, NeverPunctualDrafterIsSeldomAwaited) {
  Join(FirstPart);
  EXPECT_LE(Serve(50), GetParam().seeded ? 0.375 : 0.125);
  EXPECT_GE(drafter_->plans(), 3) << "though it is tried";
}

TEST_P(LateDraftsTest, UnfinishedDraftsCostFewDeadlines) {
  bool finishes = true;
  Join([&](const PlayedDrafter::Asked& asked) {
    return finishes ? Whole(2 * kStep)(asked) : FirstPart(asked);
  });
  Serve(5);
  finishes = false;
  EXPECT_LE(Serve(55), GetParam().seeded ? 2.24 : 0.24);
  finishes = true;
  const double waited = Serve(50);
  // The controller need not use a drafter whose drafts are not accepted.
  if (std::string(GetParam().name) != "Adaptive") {
    EXPECT_GT(waited, 0.1) << "it is well again";
  }
}

// It reports its load, but drafts nothing.
TEST_P(LateDraftsTest, LoadReportsAreNoDrafts) {
  Join([](const PlayedDrafter::Asked&) { return std::pair(kStep, DraftChunk()); });
  EXPECT_LE(Serve(50), GetParam().seeded ? 0.375 : 0.125);
}

// Each draft arrives a little later than the previous one.
TEST_P(LateDraftsTest, EverSlowerDrafterIsNotAwaited) {
  Duration delay = kStep;
  Join([&](const PlayedDrafter::Asked& asked) {
    delay = std::min<Duration>(delay + delay / 8, std::chrono::seconds(2));
    return Whole(delay)(asked);
  });
  Serve(20);
  EXPECT_LE(Serve(50), 0.2) << "of 5 s";
}

// What the engine does for other requests, after it has chosen a plan and before it sends it.
TEST_P(LateDraftsTest, WorkOnOthersIsNotWaiting) {
  Join(Whole(kStep / 2));
  Serve(5);  // its drafts are known to be in time
  model_.set_on_truncate([this] { clock_.Advance(100 * kStep); });
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 3; ++i) {
    GenerationRequest request{.prompt = {1, 2, 3}, .max_tokens = 60, .ignore_eos = true};
    request.speculation.draft_length = 4;
    sinks.push_back(std::make_shared<RecordingSink>(/*may_fail=*/false));
    ASSERT_TRUE(engine_->Submit(++id_, request, sinks.back()).ok());
  }
  while (!std::all_of(sinks.begin(), sinks.end(), [](const auto& sink) { return sink->ended; })) {
    drafter_->Speak(pool_, 1);
    if (!engine_->Step()) clock_.Advance(kStep / 2);
  }
  for (const auto& sink : sinks) {
    EXPECT_GE(sink->summary.drafted_rounds, sink->summary.rounds / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, LateDraftsTest,
                         ::testing::Values(Way{"Fixed", "", false}, Way{"FixedSeeded", "", true},
                                           Way{"FixedArm", "fixed:draft-1x4", false},
                                           Way{"Adaptive", "adaptive", false},
                                           Way{"AdaptiveSeeded", "adaptive", true}),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace outrider
