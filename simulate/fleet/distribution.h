// Random numbers of a simulation, and the distributions that a scenario may name. The same seed
// gives the same numbers on every machine.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/json/json.h"

namespace outrider {

// Thread: one owner.
class SimulatedRandom {
 public:
  explicit SimulatedRandom(uint64_t seed) : state_(seed) {}
  uint64_t Bits();
  double Uniform();      // [0, 1)
  double Exponential();  // mean 1
  double Normal();       // mean 0, deviation 1
  int Below(int bound);  // 0 .. bound - 1; REQUIRES: bound > 0

 private:
  uint64_t state_;
};

// A distribution of numbers >= 0.
class Distribution {
 public:
  static Distribution Constant(double value) { return {Kind::kConstant, value, 0}; }
  static Distribution Uniform(double low, double high) { return {Kind::kUniform, low, high}; }

  // JSON: a number, {"uniform": [low, high]}, {"exponential": mean} or {"lognormal": [median,
  // sigma]}. kInvalidArgument: it is none of these, or a value is outside of [low, high].
  static Result<Distribution> Parse(const JsonValue& json, double low, double high);

  double Draw(SimulatedRandom& random) const;
  double Mean() const;

 private:
  enum class Kind { kConstant, kUniform, kExponential, kLognormal };
  Distribution(Kind kind, double a, double b) : kind_(kind), a_(a), b_(b) {}

  Kind kind_;
  double a_;
  double b_;
};

}  // namespace outrider
