#include "tests/support/recorded_texts.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/check.h"
#include "common/base/mix_bits.h"

namespace outrider::testing {
namespace {

constexpr char kLookups[] = "fixed:lookup-strong-8,lookup-8,lookup-strong-4,lookup-4";
constexpr char kSuffixes[] = "fixed:suffix-strong-8,suffix-8,suffix-strong-4,suffix-4";

bool IsLength(const std::string& way) {
  return std::isdigit(static_cast<unsigned char>(way.front())) != 0;
}

// The logit beside zeros that has this probability.
float LogitOf(int percent, int vocab_size) {
  const double p = std::clamp(percent / 100.0, 0.02, 0.999);
  return static_cast<float>(std::log(p / (1 - p) * (vocab_size - 1)));
}

template <class Next>
void Follow(const RecordedText& text, Next next) {
  uint64_t hash = PacedModel::HashOfNothing();
  for (const TokenId token : text.prompt) hash = PacedModel::HashOf(hash, token);
  for (size_t i = 0; i < text.text.size(); ++i) {
    next(hash, i);
    hash = PacedModel::HashOf(hash, text.text[i]);
  }
}

PacedModelOptions ModelOf(const std::string& name, int vocab_size) {
  return {.name = name, .vocab_size = vocab_size};
}

}  // namespace

std::vector<RecordedText> ReadRecordedTexts(const std::filesystem::path& path) {
  std::ifstream in(path);
  OUTRIDER_CHECK(in.is_open());
  std::vector<RecordedText> texts;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    texts.push_back({.domain = json.at("domain"),
                     .temperature = json.at("temperature"),
                     .prompt = json.at("prompt"),
                     .text = json.at("text"),
                     .accepted = json.at("accepted"),
                     .confidence = json.at("confidence")});
    OUTRIDER_CHECK(texts.back().accepted.size() == texts.back().text.size());
    OUTRIDER_CHECK(texts.back().confidence.size() == texts.back().text.size());
  }
  return texts;
}

void WriteRecordedTexts(const std::vector<RecordedText>& texts, const std::filesystem::path& path) {
  std::ofstream out(path);
  for (const RecordedText& text : texts) {
    out << nlohmann::ordered_json{{"domain", text.domain},     {"temperature", text.temperature},
                                  {"prompt", text.prompt},     {"text", text.text},
                                  {"accepted", text.accepted}, {"confidence", text.confidence}}
               .dump()
        << "\n";
  }
}

PacedModelOptions RecordedTarget(const std::vector<RecordedText>& texts, int vocab_size,
                                 std::vector<TokenId> eos) {
  PacedModelOptions options = ModelOf("target", vocab_size);
  options.eos_token_ids = std::move(eos);
  for (const RecordedText& text : texts) {
    Follow(text,
           [&](uint64_t hash, size_t i) { options.recorded[hash] = {.token = text.text[i]}; });
  }
  return options;
}

PacedModelOptions RecordedDrafter(const std::vector<RecordedText>& texts, int vocab_size,
                                  uint64_t seed) {
  PacedModelOptions options = ModelOf("drafter", vocab_size);
  options.acceptance = {0};  // off the texts it does not matter
  for (const RecordedText& text : texts) {
    Follow(text, [&](uint64_t hash, size_t i) {
      const bool agrees = 100 * UnitOf(SplitMix(hash ^ SplitMix(seed))) < text.accepted[i];
      const TokenId other = (text.text[i] + 1) % vocab_size;
      options.recorded[hash] = {.token = agrees ? text.text[i] : other,
                                .logit = LogitOf(text.confidence[i], vocab_size)};
    });
  }
  return options;
}

TimedPairOptions PairOf(const std::string& way, const PairCosts& costs, uint64_t seed) {
  TimedPairOptions options{.drafter = {.ahead_tokens = 32},
                           .target_cost = costs.target,
                           .drafter_cost = costs.drafter,
                           .one_way = costs.one_way};
  options.engine.draw_seed = [next = seed * 1000000]() mutable { return ++next; };
  PlannerOptions planner;
  if (way == "alone") {
    planner.local.lookup.max_tokens = 0;
    planner.local.suffix_max_tokens = 0;
  } else if (way == "lookup") {
    planner.control.policy = kLookups;
  } else if (way == "suffix") {
    planner.control.policy = kSuffixes;
  } else if (way.starts_with("fixed:")) {
    planner.control.policy = way;
  }
  options.engine.planner = planner;
  return options;
}

void DecodingSums::Add(const Summary& summary) {
  seconds += summary.decode_seconds;
  tokens += summary.completion_tokens - 1;
  rounds += summary.rounds;
  for (const auto& [arm, count] : summary.arm_rounds) arms[arm] += count;
}

std::map<std::string, WaySums> DecodeRecorded(const std::vector<RecordedText>& texts,
                                              const std::string& way, const RecordedRun& run,
                                              const Tokenizer& tokenizer,
                                              std::vector<TokenId> eos) {
  std::map<std::string, WaySums> sums;
  for (int start = 0; start < run.starts; ++start) {
    const auto seed = static_cast<uint64_t>(start) + 1;
    const int vocab_size = tokenizer.vocab_size();
    PacedModel target(RecordedTarget(texts, vocab_size, eos), [](double) {});
    PacedModel drafter(RecordedDrafter(texts, vocab_size, seed), [](double) {});
    TimedPair pair(PairOf(way, run.costs, seed), &target, &drafter, &tokenizer);
    std::vector<GenerationRequest> requests;
    std::vector<const RecordedText*> asked;
    size_t count = texts.size() * static_cast<size_t>(run.rounds);
    if (run.requests > 0) count = std::min(count, static_cast<size_t>(run.requests));
    for (size_t i = 0; i < count; ++i) {
      asked.push_back(&texts[(i + static_cast<size_t>(start) * 3) % texts.size()]);
      GenerationRequest request{.prompt = asked.back()->prompt, .max_tokens = 240};
      request.sampling.temperature = 0;
      if (way == "plain") request.speculation.enabled = false;
      if (IsLength(way)) request.speculation.draft_length = std::stoi(way);
      requests.push_back(std::move(request));
    }
    const std::vector<TimedPair::Answer> answers = pair.Run(std::move(requests), run.concurrency);
    for (size_t i = 0; i < answers.size(); ++i) {
      OUTRIDER_CHECK(answers[i].tokens.size() + 1 >= asked[i]->text.size());
      WaySums& domain = sums[asked[i]->domain];
      domain.all.Add(answers[i].summary);
      if (i == 0) domain.first.Add(answers[i].summary);
      if (i >= 10) domain.later.Add(answers[i].summary);
    }
  }
  return sums;
}

}  // namespace outrider::testing
