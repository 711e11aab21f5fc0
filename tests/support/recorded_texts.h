// Texts of the default pair's target with what its drafter proposes along them, recorded once, so
// that production code can decode them again in no time: models that know nothing else
// (PacedModel) say the same token after the same text. The drafter agrees with the recorded
// probability of acceptance, independently at each position.
//
// Files hold a line of JSON for each text: domain, temperature, prompt and text (token ids),
// accepted and confidence (percent, by position of the text).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "simulate/fleet/paced_model.h"
#include "tests/support/timed_pair.h"
#include "verifier/engine/request.h"

namespace outrider::testing {

struct RecordedText {
  std::string domain;
  double temperature = 0;
  std::vector<TokenId> prompt;
  std::vector<TokenId> text;    // ends with the target's end of sequence, or as it was cut
  std::vector<int> accepted;    // percent: of the drafter's token at each position
  std::vector<int> confidence;  // percent: the drafter's largest probability there
};

// Aborts the program on a file that is not one.
std::vector<RecordedText> ReadRecordedTexts(const std::filesystem::path& path);
void WriteRecordedTexts(const std::vector<RecordedText>& texts, const std::filesystem::path& path);

// The pair's two models. `seed`: of where the drafter agrees.
PacedModelOptions RecordedTarget(const std::vector<RecordedText>& texts, int vocab_size,
                                 std::vector<TokenId> eos);
PacedModelOptions RecordedDrafter(const std::vector<RecordedText>& texts, int vocab_size,
                                  uint64_t seed);

// What the pairs of a comparison have in common: costs as measured on a Zen 4, low percentiles of
// two busy cores.
struct PairCosts {
  PassCost target = {0.75e-3, 0.115e-3};
  PassCost drafter = {0.11e-3, 0.015e-3};
  double one_way = 0.12e-3;  // seconds of a message
};

// Options of a pair that decodes in one way: "adaptive"; "alone", which is adaptive without prompt
// lookup and suffix drafts; "lookup" and "suffix", wherever there is a match; "fixed:ARM,..". A
// number is a draft length that requests name.
TimedPairOptions PairOf(const std::string& way, const PairCosts& costs, uint64_t seed);

// Sums over requests; the first token of each, which the prompt's pass yields, is left out.
struct DecodingSums {
  double seconds = 0;
  double tokens = 0;
  double rounds = 0;
  std::map<std::string, int> arms;  // rounds
  void Add(const Summary& summary);
  double speed() const { return tokens / seconds; }
};

struct WaySums {
  DecodingSums all;
  DecodingSums first;  // requests of fresh verifiers
  DecodingSums later;  // from the eleventh on
};

struct RecordedRun {
  PairCosts costs = {};
  int starts = 4;  // fresh verifiers
  int rounds = 2;  // through the texts, for each of them
  int concurrency = 1;
  int requests = 0;  // the most for each of them; 0: all
};

// Decodes the texts in one way, by domain. Each start begins at another text.
std::map<std::string, WaySums> DecodeRecorded(const std::vector<RecordedText>& texts,
                                              const std::string& way, const RecordedRun& run,
                                              const Tokenizer& tokenizer, std::vector<TokenId> eos);

}  // namespace outrider::testing
