#include "simulate/pair.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "common/json/json.h"

namespace outrider {
namespace {

constexpr double kSumTolerance = 1e-6;

Result<std::vector<double>> ParseRow(const JsonValue& json, size_t vocab) {
  if (!json.is_array() || json.size() != vocab) {
    return json.Wrong("an array of " + std::to_string(vocab) + " numbers");
  }
  std::vector<double> row;
  double sum = 0;
  for (size_t i = 0; i < vocab; ++i) {
    OUTRIDER_ASSIGN(row.emplace_back(), json[i].Number(0, std::numeric_limits<double>::max()));
    sum += row.back();
  }
  if (!(std::fabs(sum - 1) <= kSumTolerance)) {
    return InvalidArgument(json.path() + " sums to " + std::to_string(sum) + ", must sum to 1");
  }
  for (double& p : row) p /= sum;
  return row;
}

Result<MarkovChain> ParseChain(const JsonValue& json, size_t vocab) {
  OUTRIDER_TRY(json.MustBeObject());
  MarkovChain chain;
  OUTRIDER_ASSIGN(chain.rows.emplace_back(), ParseRow(json["initial"], vocab));
  const JsonValue transition = json["transition"];
  if (!transition.is_array() || transition.size() != vocab) {
    return transition.Wrong("an array of " + std::to_string(vocab) + " rows");
  }
  for (size_t i = 0; i < vocab; ++i) {
    OUTRIDER_ASSIGN(chain.rows.emplace_back(), ParseRow(transition[i], vocab));
  }
  return chain;
}

}  // namespace

Result<MarkovPair> ParsePair(std::string_view text) {
  OUTRIDER_ASSIGN(const JsonValue json,
                  ParseJsonObject(text, "the pair", {.repeated_members = true}));
  MarkovPair pair;
  OUTRIDER_ASSIGN(pair.vocab, json["vocab"].Int(1, kMaxSimulatedVocab));
  const auto size = static_cast<size_t>(pair.vocab);
  pair.ids.resize(size);
  std::iota(pair.ids.begin(), pair.ids.end(), 0);
  OUTRIDER_ASSIGN(pair.target, ParseChain(json["target"], size));
  OUTRIDER_ASSIGN(pair.draft, ParseChain(json["draft"], size));
  return pair;
}

DraftDistribution WireDistribution(std::span<const double> row) {
  return MakeDraftDistribution(std::vector<float>(row.begin(), row.end()),
                               {.mass = 1.f, .max_entries = static_cast<int>(row.size())});
}

void RoundToIntegers(MarkovChain* chain) {
  for (std::vector<double>& row : chain->rows) {
    const DraftDistribution distribution = WireDistribution(row);
    row.assign(row.size(), 0.0);
    for (size_t i = 0; i < distribution.ids.size(); ++i) {
      row[static_cast<size_t>(distribution.ids[i])] =
          static_cast<double>(distribution.weights[i]) / kDraftWeightTotal;
    }
  }
}

}  // namespace outrider
