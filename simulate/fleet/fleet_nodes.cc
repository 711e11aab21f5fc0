#include "simulate/fleet/fleet_nodes.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace outrider {
namespace {

constexpr int kPageTokens = 16;

PacedModelOptions TargetOptions(const FleetScenario& scenario) {
  return {.name = "target",
          .vocab_size = kFleetVocab,
          .cost = scenario.verifier.cost,
          .page_tokens = kPageTokens,
          .total_pages = scenario.verifier.kv_tokens / kPageTokens,
          .max_batch_tokens = scenario.verifier.token_budget};
}

// As outrider-drafter chooses them.
int StepTokens(const FleetScenario& scenario) {
  return std::max(DraftLoopOptions{}.max_step_tokens, scenario.drafter.sessions);
}

PacedModelOptions DraftOptions(const FleetScenario& scenario) {
  PacedModelOptions options{.name = "draft",
                            .vocab_size = kFleetVocab,
                            .cost = scenario.drafter.cost,
                            .page_tokens = kPageTokens,
                            .total_pages = scenario.drafter.kv_tokens / kPageTokens,
                            .max_batch_tokens = StepTokens(scenario)};
  for (const FleetClass& c : scenario.classes) options.acceptance.push_back(c.acceptance);
  return options;
}

// As a verifier times its passes at start.
std::vector<PassTime> PassesOf(const PassCost& cost) {
  std::vector<PassTime> passes;
  for (int rows = 1; rows <= 16; rows *= 2) {
    passes.push_back({.rows = rows, .seconds = cost.Seconds(rows)});
  }
  return passes;
}

EngineOptions EngineOptionsOf(const FleetScenario& scenario, bool speculates, uint64_t seed) {
  EngineOptions options{.max_sessions = scenario.verifier.sessions,
                        .max_waiting = scenario.verifier.waiting,
                        .max_waiting_per_client = scenario.verifier.waiting};
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
          .max_step_tokens = StepTokens(scenario)};
}

TargetIdentity IdentityOf(const Tokenizer& tokenizer) {
  return {.model = "target", .tokenizer = tokenizer.fingerprint(), .vocab_size = kFleetVocab};
}

}  // namespace

std::unique_ptr<Tokenizer> MakeFleetTokenizer() {
  std::string vocab;
  for (int i = 0; i < kFleetVocab; ++i) {
    const char letter = static_cast<char>(i < 26 ? 'a' + i : 'A' + i - 26);
    vocab += (i == 0 ? "\"" : ",\"") + std::string(1, letter) + "\":" + std::to_string(i);
  }
  return Tokenizer::FromJson(R"({"version":"1.0","added_tokens":[],"normalizer":null,)"
                             R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                             R"("decoder":{"type":"ByteLevel"},)"
                             R"("model":{"type":"BPE","vocab":{)" +
                             vocab + R"(},"merges":[]}})")
      .value();
}

FleetVerifier::FleetVerifier(const FleetScenario& scenario, bool speculates, int zone,
                             uint64_t seed, const Tokenizer* tokenizer, EventQueue* queue,
                             std::shared_ptr<SimulatedDevice> device)
    : SimulatedNode(queue, std::move(device)),
      zone_(zone),
      model_(TargetOptions(scenario), [this](double seconds) { Spend(seconds); }),
      pool_(IdentityOf(*tokenizer), DraftDistributionLimits{}, nullptr, &clock_),
      engine_(EngineOptionsOf(scenario, speculates, seed), &model_, tokenizer,
              speculates ? &pool_ : nullptr, nullptr, &clock_) {
  pool_.set_consumer(&engine_.draft_consumer());
}

FleetDrafter::FleetDrafter(const FleetScenario& scenario, int zone, int ahead_tokens,
                           const Tokenizer* tokenizer, EventQueue* queue,
                           std::shared_ptr<SimulatedDevice> device)
    : SimulatedNode(queue, std::move(device)),
      zone_(zone),
      model_(DraftOptions(scenario), [this](double seconds) { Spend(seconds); }),
      loop_(&model_, LoopOptionsOf(scenario, ahead_tokens), &clock_, nullptr) {
  const DraftLoopOptions options = LoopOptionsOf(scenario, ahead_tokens);
  hello_ = {.name = "drafter",
            .model = "draft",
            .tokenizer = tokenizer->fingerprint(),
            .vocab_size = kFleetVocab,
            .max_sessions = options.max_sessions,
            .max_draft_length = options.max_draft_length,
            .max_draft_tokens = options.max_draft_tokens,
            .max_context = model_.total_pages() * kPageTokens};
}

}  // namespace outrider
