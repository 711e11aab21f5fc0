#include "simulate/pair.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

namespace outrider {
namespace {

using Json = nlohmann::json;

constexpr double kSumTolerance = 1e-6;

// The member `name` of `parent`; null if there is none, which no reader below accepts.
const Json& Member(const Json& parent, const char* name) {
  static const Json kNone;
  const auto at = parent.find(name);
  return at == parent.end() ? kNone : *at;
}

Result<std::vector<double>> ParseRow(const Json& json, const std::string& name, size_t vocab) {
  if (!json.is_array() || json.size() != vocab) {
    return InvalidArgument(name + " must be an array of " + std::to_string(vocab) + " numbers");
  }
  std::vector<double> row;
  double sum = 0;
  for (const Json& entry : json) {
    const double p = entry.is_number() ? entry.get<double>() : -1;
    if (!(p >= 0) || !std::isfinite(p)) {
      return InvalidArgument(name + "[" + std::to_string(row.size()) +
                             "] must be a finite number of at least 0");
    }
    row.push_back(p);
    sum += p;
  }
  if (!(std::fabs(sum - 1) <= kSumTolerance)) {
    return InvalidArgument(name + " sums to " + std::to_string(sum) + ", must sum to 1");
  }
  for (double& p : row) p /= sum;
  return row;
}

Result<MarkovChain> ParseChain(const Json& json, const std::string& name, size_t vocab) {
  if (!json.is_object()) return InvalidArgument(name + " must be an object");
  MarkovChain chain;
  OUTRIDER_ASSIGN(std::vector<double> initial,
                  ParseRow(Member(json, "initial"), name + ".initial", vocab));
  chain.rows.push_back(std::move(initial));
  const Json& transition = Member(json, "transition");
  if (!transition.is_array() || transition.size() != vocab) {
    return InvalidArgument(name + ".transition must be an array of " + std::to_string(vocab) +
                           " rows");
  }
  for (size_t i = 0; i < vocab; ++i) {
    OUTRIDER_ASSIGN(
        std::vector<double> row,
        ParseRow(transition[i], name + ".transition[" + std::to_string(i) + "]", vocab));
    chain.rows.push_back(std::move(row));
  }
  return chain;
}

}  // namespace

Result<MarkovPair> ParsePair(std::string_view json) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return InvalidArgument("the pair is not a JSON object");
  const Json& vocab = Member(root, "vocab");
  // As unsigned: whole, not negative, and nothing that a double would round.
  if (!vocab.is_number_unsigned() || vocab.get<uint64_t>() < 1 ||
      vocab.get<uint64_t>() > static_cast<uint64_t>(kMaxSimulatedVocab)) {
    return InvalidArgument("vocab must be a whole number from 1 to " +
                           std::to_string(kMaxSimulatedVocab));
  }
  MarkovPair pair;
  pair.vocab = vocab.get<int>();
  const auto size = static_cast<size_t>(pair.vocab);
  pair.ids.resize(size);
  std::iota(pair.ids.begin(), pair.ids.end(), 0);
  OUTRIDER_ASSIGN(pair.target, ParseChain(Member(root, "target"), "target", size));
  OUTRIDER_ASSIGN(pair.draft, ParseChain(Member(root, "draft"), "draft", size));
  return pair;
}

DraftLaw WireLaw(std::span<const double> row) {
  return MakeDraftLaw(std::vector<float>(row.begin(), row.end()),
                      {.mass = 1.f, .max_entries = static_cast<int>(row.size())});
}

void RoundToIntegers(MarkovChain* chain) {
  for (std::vector<double>& row : chain->rows) {
    const DraftLaw law = WireLaw(row);
    row.assign(row.size(), 0.0);
    for (size_t i = 0; i < law.ids.size(); ++i) {
      row[static_cast<size_t>(law.ids[i])] = static_cast<double>(law.weights[i]) / kDraftLawTotal;
    }
  }
}

}  // namespace outrider
