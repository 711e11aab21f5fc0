#include "simulate/fleet/fleet_nodes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "drafter/propose/draft_loop.h"

namespace outrider {
namespace {

constexpr int kPageTokens = 16;

// As outrider-drafter chooses them.
int StepTokens(const FleetScenario& scenario) {
  return std::max(DraftLoopOptions{}.max_step_tokens, scenario.drafter.sessions);
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

GenerationRequest GenerationOf(std::vector<TokenId> prompt, int output_tokens) {
  return {.prompt = std::move(prompt),
          .sampling = {.temperature = 0},
          .max_tokens = output_tokens,
          .ignore_eos = true};
}

TargetIdentity TargetIdentityOf(const Tokenizer& tokenizer) {
  return {.model = "target", .tokenizer = tokenizer.fingerprint(), .vocab_size = kFleetVocab};
}

DrafterHello HelloOf(const FleetScenario& scenario, const Tokenizer& tokenizer) {
  const DraftLoopOptions defaults;
  return {.name = "drafter",
          .model = "draft",
          .tokenizer = tokenizer.fingerprint(),
          .vocab_size = kFleetVocab,
          .max_sessions = scenario.drafter.sessions,
          .max_draft_length = defaults.max_draft_length,
          .max_draft_tokens = defaults.max_draft_tokens,
          .max_context = scenario.drafter.kv_tokens / kPageTokens * kPageTokens};
}

PacedModelOptions TargetOptions(const FleetScenario& scenario) {
  return {.name = "target",
          .vocab_size = kFleetVocab,
          .cost = scenario.verifier.cost,
          .page_tokens = kPageTokens,
          .total_pages = scenario.verifier.kv_tokens / kPageTokens,
          .max_batch_tokens = scenario.verifier.token_budget};
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

}  // namespace outrider
