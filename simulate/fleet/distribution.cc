#include "simulate/fleet/distribution.h"

#include <cmath>
#include <numbers>
#include <string>

#include "common/base/mix_bits.h"

namespace outrider {
namespace {

constexpr double kMaxSigma = 3;

Status CheckPair(const JsonValue& json, const char* wanted) {
  return json.is_array() && json.size() == 2 ? Status() : json.Wrong(wanted);
}

}  // namespace

uint64_t SimulatedRandom::Bits() {
  state_ += kSplitMixStep;
  return SplitMix(state_);
}

double SimulatedRandom::Uniform() { return UnitOf(Bits()); }

double SimulatedRandom::Exponential() { return -std::log1p(-Uniform()); }

double SimulatedRandom::Normal() {
  // Box and Muller 1958.
  const double radius = std::sqrt(2 * Exponential());
  return radius * std::cos(2 * std::numbers::pi * Uniform());
}

int SimulatedRandom::Below(int bound) {
  return static_cast<int>(Bits() % static_cast<uint64_t>(bound));
}

Result<Distribution> Distribution::Parse(const JsonValue& json, double low, double high) {
  if (!json.is_object()) {
    OUTRIDER_ASSIGN(const double value, json.Number(low, high));
    return Constant(value);
  }
  OUTRIDER_TRY(json.AllowOnly({"uniform", "exponential", "lognormal"}));
  if (json.size() != 1) return json.Error("must name one distribution");
  if (const JsonValue uniform = json["uniform"]; !uniform.absent()) {
    OUTRIDER_TRY(CheckPair(uniform, "[low, high]"));
    OUTRIDER_ASSIGN(const double least, uniform[0].Number(low, high));
    OUTRIDER_ASSIGN(const double most, uniform[1].Number(least, high));
    return Distribution(Kind::kUniform, least, most);
  }
  if (const JsonValue exponential = json["exponential"]; !exponential.absent()) {
    OUTRIDER_ASSIGN(const double mean, exponential.Number(low, high));
    return Distribution(Kind::kExponential, mean, 0);
  }
  const JsonValue lognormal = json["lognormal"];
  OUTRIDER_TRY(CheckPair(lognormal, "[median, sigma]"));
  OUTRIDER_ASSIGN(const double median, lognormal[0].Number(low, high));
  OUTRIDER_ASSIGN(const double sigma, lognormal[1].Number(0, kMaxSigma));
  return Distribution(Kind::kLognormal, median, sigma);
}

double Distribution::Draw(SimulatedRandom& random) const {
  switch (kind_) {
    case Kind::kConstant: return a_;
    case Kind::kUniform: return a_ + (b_ - a_) * random.Uniform();
    case Kind::kExponential: return a_ * random.Exponential();
    case Kind::kLognormal: return a_ * std::exp(b_ * random.Normal());
  }
  return a_;
}

double Distribution::Mean() const {
  switch (kind_) {
    case Kind::kConstant:
    case Kind::kExponential: return a_;
    case Kind::kUniform: return (a_ + b_) / 2;
    case Kind::kLognormal: return a_ * std::exp(b_ * b_ / 2);
  }
  return a_;
}

}  // namespace outrider
