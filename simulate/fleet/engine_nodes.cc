#include "simulate/fleet/engine_nodes.h"

#include <utility>
#include <vector>

namespace outrider {
namespace {

// As a verifier times its passes at start.
std::vector<PassTime> PassesOf(const PassCost& cost) {
  std::vector<PassTime> passes;
  for (int rows = 1; rows <= 16; rows *= 2) {
    passes.push_back({.rows = rows, .seconds = cost.Seconds(rows)});
  }
  return passes;
}

EngineOptions EngineOptionsOf(const FleetScenario& scenario, bool speculates, uint64_t seed) {
  EngineOptions options{.admission = {.max_running = scenario.verifier.sessions,
                                      .max_waiting = scenario.verifier.waiting,
                                      .max_waiting_per_client = scenario.verifier.waiting}};
  options.speculation.draft_length = scenario.draft_length;
  options.scheduler.token_budget = scenario.verifier.token_budget;
  options.draw_seed = [next = seed]() mutable { return ++next; };
  if (!speculates || scenario.policy == "fixed") return options;
  // The texts are noise: what repeats in them tells nothing.
  options.planner = PlannerOptions{.control = {.policy = scenario.policy, .seed = seed},
                                   .local = {.lookup = {.max_tokens = 0}, .suffix_max_tokens = 0},
                                   .max_paths = 1,
                                   .passes = PassesOf(scenario.verifier.cost)};
  return options;
}

DraftLoopOptions LoopOptionsOf(const FleetScenario& scenario, int ahead_tokens) {
  return {.max_sessions = scenario.drafter.sessions,
          .ahead_tokens = ahead_tokens,
          .tokenizer_vocab = kFleetVocab,
          .prefix_cache = true,
          .max_step_tokens = DraftOptions(scenario).max_batch_tokens};
}

}  // namespace

// Counts one request's tokens, and tells a listener about it.
class EngineVerifier::Sink final : public GenerationSink {
 public:
  Sink(EngineVerifier* verifier, FleetListener* listener, uint64_t id)
      : verifier_(verifier), listener_(listener), id_(id) {}
  ~Sink() override { verifier_->decoding_ -= decodes_ ? 1 : 0; }

  void Send(Chunk chunk) override {
    const auto tokens = static_cast<int>(chunk.tokens.size());
    PassSums& sums = verifier_->sums_;
    (decodes_ ? sums.tokens : sums.first_tokens) += tokens;
    sums.drafted += chunk.drafted;
    sums.accepted += chunk.accepted;
    if (!decodes_) {
      decodes_ = true;
      ++sums.first_chunks;
      ++verifier_->decoding_;
    }
    listener_->OnTokens(tokens, verifier_->clock().Now());
    listener_->OnChunk(id_, tokens, verifier_->clock().Now());
  }
  void Finish(const Summary& summary) override {
    listener_->OnFinished(id_, {.drafted = static_cast<double>(summary.drafted_tokens),
                                .accepted = static_cast<double>(summary.accepted_tokens)});
  }
  void Fail(const Status& /*status*/) override { listener_->OnFailed(id_); }

 private:
  EngineVerifier* const verifier_;
  FleetListener* const listener_;
  const uint64_t id_;
  bool decodes_ = false;
};

EngineVerifier::EngineVerifier(const FleetScenario& scenario, bool speculates, int zone,
                               uint64_t seed, const Tokenizer* tokenizer, EventQueue* queue,
                               std::shared_ptr<SimulatedDevice> device)
    : FleetVerifier(zone, queue, std::move(device)),
      model_(TargetOptions(scenario), [this](double seconds) { Spend(seconds); }),
      pool_(TargetIdentityOf(*tokenizer), DraftDistributionLimits{}, nullptr, &clock_),
      engine_(EngineOptionsOf(scenario, speculates, seed), &model_, tokenizer,
              speculates ? &pool_ : nullptr, nullptr, &clock_) {
  pool_.set_consumer(&engine_.draft_consumer());
}

bool EngineVerifier::Submit(FleetRequest request, FleetListener* listener) {
  // As Intake does before the engine's thread is asked.
  AdmissionGate& gate = engine_.gate();
  if (!gate.TryEnter()) return false;
  gate.Leave();
  GenerationRequest generation = GenerationOf(std::move(request.prompt), request.output_tokens);
  auto sink = std::make_shared<Sink>(this, listener, request.id);
  return engine_.Submit(request.id, std::move(generation), std::move(sink)).ok();
}

bool EngineVerifier::Step() {
  const int decoding = decoding_;
  const Time begin = clock_.Now();
  if (!engine_.Step()) return false;
  if (decoding > 0) {
    ++sums_.passes;
    sums_.decoding += decoding;
    sums_.idle_seconds += Seconds(begin - pass_end_);
  }
  pass_end_ = clock_.Now();
  return true;
}

PassSums EngineVerifier::pass_sums() const {
  PassSums sums = sums_;
  // A pass has logits for each row of text and draft that a round needs, and none for a prompt's
  // but the last. So neither prompts nor texts that are read again after a preemption count.
  sums.rows = static_cast<double>(model_.logit_rows()) - sums.first_chunks;
  return sums;
}

void EngineVerifier::FailAll() { engine_.CancelAll(Unavailable("the verifier has ended")); }

LoopDrafter::LoopDrafter(const FleetScenario& scenario, int zone, int ahead_tokens,
                         const Tokenizer& tokenizer, EventQueue* queue,
                         std::shared_ptr<SimulatedDevice> device)
    : FleetDrafter(scenario, zone, tokenizer, queue, std::move(device)),
      model_(DraftOptions(scenario), [this](double seconds) { Spend(seconds); }),
      loop_(&model_, LoopOptionsOf(scenario, ahead_tokens), &clock_, this) {}

}  // namespace outrider
