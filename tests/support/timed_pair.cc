#include "tests/support/timed_pair.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "verifier/embedded/local_link.h"

namespace outrider::testing {
namespace {

constexpr uint64_t kConnection = 1;

// A model whose passes take a given time on a node's clock.
class TimedModel final : public Model {
 public:
  TimedModel(Model* model, const PassCost& cost, std::function<void(double seconds)> spend)
      : model_(model), cost_(cost), spend_(std::move(spend)) {}

  const ModelConfig& config() const override { return model_->config(); }
  int page_tokens() const override { return model_->page_tokens(); }
  int total_pages() const override { return model_->total_pages(); }
  int free_pages() const override { return model_->free_pages(); }
  SequenceId NewSequence() override { return model_->NewSequence(); }
  int PagesNeeded(SequenceId sequence, int tokens) const override {
    return model_->PagesNeeded(sequence, tokens);
  }
  Status Reserve(SequenceId sequence, int tokens) override {
    return model_->Reserve(sequence, tokens);
  }
  Result<SequenceId> Fork(SequenceId sequence, int length) override {
    return model_->Fork(sequence, length);
  }
  std::span<const int32_t> Pages(SequenceId sequence) const override {
    return model_->Pages(sequence);
  }
  std::span<const int32_t> page_holders() const override { return model_->page_holders(); }
  int length(SequenceId sequence) const override { return model_->length(sequence); }
  Status Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                 ForwardOutput* output) override {
    size_t rows = 0;
    for (const ForwardSequence& share : batch) rows += share.tokens.size();
    spend_(cost_.Seconds(static_cast<int>(rows)));
    return model_->Forward(batch, want_hidden, output);
  }
  int max_batch_tokens() const override { return model_->max_batch_tokens(); }
  Decisions Decide(const RoundBatch& batch, int allowed) override {
    return model_->Decide(batch, allowed);
  }
  std::span<const PickedRow> Draft(const PickBatch& batch) override { return model_->Draft(batch); }
  void KeepPath(SequenceId sequence, std::span<const int32_t> path) override {
    model_->KeepPath(sequence, path);
  }
  void Truncate(SequenceId sequence, int length) override { model_->Truncate(sequence, length); }
  void Release(SequenceId sequence) override { model_->Release(sequence); }

 private:
  Model* const model_;
  const PassCost cost_;
  const std::function<void(double seconds)> spend_;
};

EngineOptions WithPasses(EngineOptions options, const PassCost& cost) {
  if (!options.planner.has_value()) return options;
  for (int rows = 1; rows <= 16; rows *= 2) {
    options.planner->passes.push_back({.rows = rows, .seconds = cost.Seconds(rows)});
  }
  return options;
}

TargetIdentity IdentityOf(const Model& target, const Tokenizer& tokenizer) {
  return {.model = target.config().name,
          .tokenizer = tokenizer.fingerprint(),
          .vocab_size = target.config().vocab_size};
}

}  // namespace

class TimedPair::Verifier final : public SimulatedNode {
 public:
  Verifier(const TimedPairOptions& options, Model* target, const Tokenizer* tokenizer,
           EventQueue* queue)
      : SimulatedNode(queue, std::make_shared<SimulatedDevice>()),
        model_(target, options.target_cost,
               [this, slowness = options.slowness](double seconds) {
                 Spend(seconds * (slowness ? slowness() : 1));
               }),
        pool_(IdentityOf(*target, *tokenizer), DraftDistributionLimits{}, nullptr, &clock_),
        engine_(WithPasses(options.engine, options.target_cost), &model_, tokenizer, &pool_,
                nullptr, &clock_) {
    pool_.set_consumer(&engine_.draft_consumer());
  }

  Engine& engine() { return engine_; }
  DrafterPool& pool() { return pool_; }

 protected:
  bool Step() override { return engine_.Step(); }
  std::optional<Time> NextDeadline() const override { return engine_.NextDeadline(); }

 private:
  TimedModel model_;
  DrafterPool pool_;
  Engine engine_;
};

class TimedPair::Drafter final : public SimulatedNode {
 public:
  Drafter(const TimedPairOptions& options, Model* drafter, EventQueue* queue)
      : SimulatedNode(queue, std::make_shared<SimulatedDevice>()),
        model_(drafter, options.drafter_cost,
               [this, slowness = options.slowness](double seconds) {
                 Spend(seconds * (slowness ? slowness() : 1));
               }),
        loop_(std::make_unique<DraftLoop>(&model_, options.drafter, &clock_, nullptr)) {}

  DraftLoop& loop() { return *loop_; }

 protected:
  bool Step() override { return loop_->Step(); }

 private:
  TimedModel model_;
  std::unique_ptr<DraftLoop> loop_;
};

class TimedPair::ToDrafter final : public LinkEvents {
 public:
  ToDrafter(TimedPair* pair, double one_way) : pair_(pair), delay_(FromSeconds(one_way)) {}

  bool Push(LinkEvent event) override {
    // The engine sends at its own clock's time.
    const Time due = std::max(pair_->verifier_->clock().Now(), pair_->queue_.now()) + delay_;
    pair_->queue_.At(due, [pair = pair_, event = std::make_shared<LinkEvent>(std::move(event))] {
      pair->drafter_->Post(
          [pair, event] { OUTRIDER_CHECK(pair->drafter_->loop().Push(std::move(*event))); });
    });
    return true;
  }
  void PushUrgent(LinkEvent event) override { Push(std::move(event)); }

 private:
  TimedPair* const pair_;
  const Duration delay_;
};

class TimedPair::ToVerifier final : public VerifierLink {
 public:
  ToVerifier(TimedPair* pair, double one_way) : pair_(pair), delay_(FromSeconds(one_way)) {}

  void SendDrafts(std::vector<DraftPart> drafts) override {
    const Time due = pair_->drafter_->clock().Now() + delay_;
    pair_->queue_.At(due, [pair = pair_, drafts = std::move(drafts), due] {
      pair->verifier_->Post([pair, drafts, due] {
        pair->verifier_->pool().OnDrafts(kConnection, drafts, /*bytes=*/0, due);
      });
    });
  }
  void SendLoad(const DrafterLoad& /*load*/) override {}
  void Close() override {}

 private:
  TimedPair* const pair_;
  const Duration delay_;
};

TimedPair::TimedPair(TimedPairOptions options, Model* target, Model* drafter,
                     const Tokenizer* tokenizer)
    : verifier_(std::make_unique<Verifier>(options, target, tokenizer, &queue_)),
      drafter_(std::make_unique<Drafter>(options, drafter, &queue_)) {
  const auto link = std::make_shared<LocalDrafterLink>(
      kConnection, std::make_shared<ToDrafter>(this, options.one_way),
      std::make_shared<ToVerifier>(this, options.one_way));
  const DrafterHello hello = LocalHello(*drafter, options.drafter, tokenizer->fingerprint());
  OUTRIDER_CHECK(verifier_->pool().roster().Join(kConnection, hello, link).ok());
}

TimedPair::~TimedPair() = default;

std::vector<TimedPair::Answer> TimedPair::Run(std::vector<GenerationRequest> requests,
                                              int concurrency) {
  std::vector<Answer> results(requests.size());
  size_t next = 0;
  size_t ended = 0;
  std::function<void()> submit;
  class Sink final : public GenerationSink {
   public:
    Sink(Answer* result, std::function<void()> end) : result_(result), end_(std::move(end)) {}
    void Send(Chunk chunk) override {
      result_->tokens.insert(result_->tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    }
    void Finish(const Summary& summary) override {
      result_->summary = summary;
      end_();
    }
    void Fail(const Status& status) override { OUTRIDER_CHECK(status.ok()); }

   private:
    Answer* const result_;
    const std::function<void()> end_;
  };
  submit = [&] {
    if (next == requests.size()) return;
    const size_t i = next++;
    verifier_->Post([&, i] {
      const auto sink = std::make_shared<Sink>(&results[i], [&] {
        ++ended;
        submit();
      });
      OUTRIDER_CHECK(verifier_->engine().Submit(++last_id_, std::move(requests[i]), sink).ok());
    });
  };
  for (int i = 0; i < concurrency; ++i) submit();
  while (ended < requests.size()) queue_.RunUntil(queue_.now() + FromSeconds(1e-3));
  // Messages under way arrive before the next call.
  queue_.RunUntil(queue_.now() + FromSeconds(0.1));
  return results;
}

}  // namespace outrider::testing
