// Requirements on the controller with the default pair: production code decodes recorded texts on
// simulated clocks (tests/support/recorded_texts.h), as tests/bench/control_pair_bench.cc does.
//
// Deterministic. Bounds are the figures of docs/benchmarks.md with some room for other compilers'
// rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/text/tokenizer.h"
#include "tests/support/recorded_texts.h"

namespace outrider {
namespace {

using testing::DecodingSums;
using testing::RecordedRun;
using testing::RecordedText;
using testing::WaySums;

constexpr TokenId kEndOfSequence = 4095;

// Speeds over that of the best fixed plan, or of plain decoding.
struct Ratios {
  std::vector<double> cells;  // domains at temperatures 0 and 0.8
  double mean() const {
    double sum = 0;
    for (const double cell : cells) sum += cell;
    return sum / static_cast<double>(cells.size());
  }
  double least() const { return *std::min_element(cells.begin(), cells.end()); }
};

class RecordedPairTest : public ::testing::Test {
 protected:
  RecordedPairTest() {
    SetLogLevel(LogLevel::kError);
    for (RecordedText& text : testing::ReadRecordedTexts(std::string(OUTRIDER_SOURCE_DIR) +
                                                         "/tests/control/recorded_texts.jsonl")) {
      cells_[{text.temperature, text.domain}].push_back(std::move(text));
    }
    EXPECT_EQ(cells_.size(), 10u);
  }

  // The controller's speed over the fastest of `ways`, which is the fastest over all requests.
  // `part` selects the requests that are compared.
  Ratios Compare(const std::vector<std::string>& ways, const RecordedRun& run,
                 DecodingSums WaySums::*part) {
    Ratios ratios;
    for (const auto& [cell, texts] : cells_) {
      double most = 0, best = 0;
      for (const std::string& way : ways) {
        const WaySums sums = Decode(texts, way, run);
        if (sums.all.speed() <= most) continue;
        most = sums.all.speed();
        best = (sums.*part).speed();
      }
      ratios.cells.push_back((Decode(texts, "adaptive", run).*part).speed() / best);
      std::printf("%.1f %s %.3f\n", cell.first, cell.second.c_str(), ratios.cells.back());
    }
    std::printf("mean %.3f, least %.3f\n", ratios.mean(), ratios.least());
    return ratios;
  }

  // By domain.
  std::map<std::string, WaySums> DecodeAll(const std::vector<RecordedText>& texts,
                                           const std::string& way, const RecordedRun& run) {
    return testing::DecodeRecorded(texts, way, run, *tokenizer_, {kEndOfSequence});
  }

 private:
  WaySums Decode(const std::vector<RecordedText>& texts, const std::string& way,
                 const RecordedRun& run) {
    return DecodeAll(texts, way, run).at(texts[0].domain);
  }

  std::map<std::pair<double, std::string>, std::vector<RecordedText>> cells_;
  std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::Load(std::string(OUTRIDER_SOURCE_DIR) + "/models/default/target").value();
};

const std::vector<std::string> kLengths = {"2", "4", "6", "8"};

// With trials as eager as without sharing 0.988 and 0.845.
TEST_F(RecordedPairTest, NearsBestLengthAfterTen) {
  const Ratios ratios = Compare(kLengths, {.starts = 4}, &WaySums::later);
  EXPECT_GT(ratios.mean(), 1.0);
  EXPECT_GT(ratios.least(), 0.86);
}

// With probes of 1, 2 and 1 tokens, 0.908 and 0.729.
TEST_F(RecordedPairTest, NearsBestLengthAtFirst) {
  const Ratios ratios = Compare(kLengths, {.starts = 10, .requests = 1}, &WaySums::first);
  EXPECT_GT(ratios.mean(), 0.92);
  EXPECT_GT(ratios.least(), 0.78);
}

// If prompts of others count against drafts 0.968 and 0.810.
TEST_F(RecordedPairTest, NearsBestLengthBesideAnother) {
  const Ratios ratios =
      Compare(kLengths, {.starts = 4, .rounds = 4, .concurrency = 2}, &WaySums::all);
  EXPECT_GT(ratios.mean(), 0.985);
  EXPECT_GT(ratios.least(), 0.88);
}

// After a text along which every draft is accepted, answers of one token whose end the drafter does
// not foresee: their only round ends the text, and teaches all the same. If it did not, 0.27.
TEST_F(RecordedPairTest, HardlyLosesWithShortestTexts) {
  RecordedText easy{.domain = "easy", .prompt = {1, 2, 3}};
  for (TokenId i = 0; i < 100; ++i) easy.text.push_back(100 + i);
  easy.text.push_back(kEndOfSequence);
  easy.accepted = easy.confidence = std::vector<int>(easy.text.size(), 100);
  std::vector<RecordedText> texts = {easy};
  for (TokenId i = 0; i < 400; ++i) {
    texts.push_back({.domain = "label",
                     .prompt = {300 + i, 800 + i, 1300 + i},
                     .text = {2000 + i, kEndOfSequence},
                     .accepted = {0, 0},
                     .confidence = {100, 100}});
  }
  const RecordedRun run{.starts = 1, .rounds = 1};
  const double plain = DecodeAll(texts, "plain", run).at("label").all.speed();
  EXPECT_GT(DecodeAll(texts, "adaptive", run).at("label").all.speed() / plain, 0.75);
}

// All requests of two verifiers, those while they learn included. With a load that is known only
// after some dozen steps 0.999 and 0.936; if prompts of others count against drafts 0.978 and
// 0.823.
TEST_F(RecordedPairTest, HardlyLosesWithEightAtOnce) {
  const Ratios ratios =
      Compare({"plain"}, {.starts = 2, .rounds = 4, .concurrency = 8}, &WaySums::all);
  EXPECT_GT(ratios.mean(), 1.0);
  EXPECT_GT(ratios.least(), 0.945);
}

}  // namespace
}  // namespace outrider
